# SPDX-License-Identifier: MIT
"""Ports of 127.0.0.1 for servers that come later, or go and come back."""
import socket


def bound(port=0):
    """A socket that is bound and does not listen. As long as it is open nobody else is given its
    port, connections are refused, and a server of ours may listen there."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(('127.0.0.1', port))
    return sock


def port_of(sock):
    return sock.getsockname()[1]
