"""The format `debezium`: envelope, values of types, sources, schemas."""
