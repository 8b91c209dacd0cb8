"""Hold trails as objects: in directories, S3, SFTP, FTP, HDFS, Kafka.

The file `contract.py` says what a store does. What is written into them, and how a trail is read back, does not live here
(`anabranch.transport`). Nothing here knows the trail.
"""
