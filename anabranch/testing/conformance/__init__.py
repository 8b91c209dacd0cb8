"""Checks of every contract, one suite each: plain functions over a subject, which tests run on each database.

reader.py asks a LogReader, snapshot.py a SnapshotReader, loader.py a Loader, target_reader.py a TargetReader, writer.py a
Writer and its abilities, asides.py and disagreement.py what is noted in epochs, appender.py an Appender, objects.py a store of
objects. Each has CHECKS: the functions in their order. The `memory`
twin passes all of them; a database that cannot says so in its tests, by name.
"""
