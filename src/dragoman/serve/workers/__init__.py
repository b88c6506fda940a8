"""Several worker processes behind one port: the server accepts requests, and workers translate them.

The main process has the port and everything about HTTP: connections, access, limits, bodies. It passes each request to
a worker over a socket pair. So it knows which requests a worker had when it dies, and answers them with an error; the
other workers' requests are not affected.
"""
