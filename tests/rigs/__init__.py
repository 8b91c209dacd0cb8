"""Helpers that tests are built with: `from rigs.scenario import Scenario`. Fixtures are in the conftest.py of their folder.

scenario*                  a job at the command line: from MySQL or MariaDB, from PostgreSQL, to several targets, and
                           somebody who writes meanwhile
job_here, both_ways        a whole job in this process, without Spark; jobs that go opposite ways
endpoints                  how a connector reaches a test's database
mysql_*                    capture of a live MySQL; its logs and packets made without one; _source; _load, _tables, _types,
                           _verify, _writer, _clusters: a target
postgresql_capture, _log, _slot, _decoders, _source, _types, _encodings    a PostgreSQL that is a source
postgresql_load, _writer, _applier, set_aside, one_by_one, value_texts     a PostgreSQL that is a target
served, browser            a manager as a process; a Chromium at its console
foreign_keys*, unique_keys a source that acts as its keys say, and histories of it, drawn
forked_commands            `anabranch VERB` in a tenth of a second, as a fork
source_text                statements of the package's own text
chunks                     row images for apply, written as tuples
corpus, structures         statements and their changes as text (tests/changes); definitions at both ends
trail_source, _process     transactions made of their numbers, and a process that writes them and is killed
storage, disk              storage that dies in the middle, a disk that is full
faulty_store               a store of objects that loses answers, cuts uploads, lags in listings
s3_server, s3_process      a server that speaks S3's protocol, and a line to it that fails on purpose
ftp_server, ftp_process    an FTP server
pgoutput, preflight*, torture_*, upgrade, waiting    messages, checks, histories, kept jobs, somebody in the way
"""
