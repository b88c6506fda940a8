"""Scheduling: the cost of requests, a fair queue, and the worker that translates batches."""
