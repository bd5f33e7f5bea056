"""The server: listener, dispatch, handlers, replicas, coordinators."""
