"""Avro: schemas and values as Kafka Connect's AvroConverter makes them of its own schemas, for the format `avro`."""
