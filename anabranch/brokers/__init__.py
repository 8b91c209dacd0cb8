"""Reach brokers of Kafka: what librdkafka is told for an endpoint, whether a cluster lets us in, what its codes mean.

A target that takes messages (`connectors/kafka/`) and a trail that stands in a cluster (`stores/`) do it alike. What does not
live here: words for people, since each of the two has settings of its own to name.
"""
