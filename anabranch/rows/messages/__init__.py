"""Messages of changes, for a target that is a log of messages: pure, columns in, columns out.

`format.py` has what a connector is given, one file or folder each format (`plain.py`). What does not live here: producing
messages, topics of a broker, the checkpoint (a connector).
"""
