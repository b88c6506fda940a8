"""Training in several processes: ranks, collectives, heartbeats, sharding."""
