"""Protobuf: schemas (proto3) and values of Debezium's envelopes, for the format `protobuf`."""
