"""Apache Kafka's group coordinator as a judge: see `group_oracle`."""
