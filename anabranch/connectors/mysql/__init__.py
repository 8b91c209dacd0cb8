"""MySQL as a source (`source/`). The files beside it are of a server's connections, types and releases, whatever its role."""
