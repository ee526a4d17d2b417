# SPDX-License-Identifier: MIT
"""Thousands of streams in one thread. Each member is an event stream; what comes on it goes to
a function, with the time of its arrival."""
import json
import resource
import select
import socket
import time

from . import tap


def allow_files(count):
    """Raises the limit of open files, for us and for the servers that we start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


class Member:
    """One stream. `seen` is for whoever uses it."""

    def __init__(self, port, request, on_event):
        self.socket = socket.socket()
        self.socket.connect(('127.0.0.1', port))
        self.socket.sendall(request)
        self.socket.setblocking(False)
        self.on_event = on_event
        self.status = None
        self.open = True  # False: the server has closed it
        self._raw, self._text = b'', b''
        self._left = 0  # of the chunk, with its CR LF
        self.seen = None

    def fileno(self):
        return self.socket.fileno()

    def feed(self, now):
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b''
        if not data:
            self.open = False
            return
        self._raw += data
        if self.status is None and not self._read_head():
            return
        self._read_chunks()
        self._read_events(now)

    def _read_head(self):
        head, mark, rest = self._raw.partition(b'\r\n\r\n')
        if not mark:
            return False
        self.status, self._raw = int(head.split(b' ')[1]), rest
        return True

    def _read_chunks(self):
        while self._raw:
            if self._left == 0:
                size, mark, rest = self._raw.partition(b'\r\n')
                if not mark:
                    return
                self._left, self._raw = int(size, 16) + 2, rest
            piece = self._raw[:self._left]
            self._raw = self._raw[len(piece):]
            text = piece[:max(0, self._left - 2)]
            self._left -= len(piece)
            self._text += text

    def _read_events(self, now):
        while b'\n\n' in self._text:
            block, _, self._text = self._text.partition(b'\n\n')
            for line in block.split(b'\n'):
                if line.startswith(b'data: {'):
                    self.on_event(self, json.loads(line[6:]), now)


class Crowd:
    def __init__(self, port):
        self.port = port
        self.epoll = select.epoll()
        self.members = {}

    def add(self, request, on_event):
        member = Member(self.port, request, on_event)
        self.members[member.fileno()] = member
        self.epoll.register(member.fileno(), select.EPOLLIN)
        return member

    def remove(self, member):
        self.epoll.unregister(member.fileno())
        del self.members[member.fileno()]
        member.socket.close()

    def turn(self, seconds):
        """Reads what is there, for up to `seconds`. A member that the server closed is not
        looked at any more, and stays in `members`."""
        for fd, _ in self.epoll.poll(seconds, 1024):
            member = self.members.get(fd)
            member.feed(time.monotonic())
            if not member.open:
                self.epoll.unregister(fd)

    def until(self, condition, what, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            tap.check(time.monotonic() < deadline, f'after {seconds:.0f} s: {what()}')
            self.turn(0.05)

    def close(self):
        for member in self.members.values():
            member.socket.close()
        self.members.clear()
        self.epoll.close()
