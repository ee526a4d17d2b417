# SPDX-License-Identifier: MIT
"""One HTTP connection of an asynchronous client."""
import asyncio
import json
import socket
import struct

LOST = (OSError, EOFError)  # how a connection ends that was not ended in order


class Link:
    @classmethod
    async def open(cls, port):
        link = cls()
        link.reader, link.writer = await asyncio.open_connection('127.0.0.1', port)
        return link

    def send(self, data):
        self.writer.write(data)

    async def head(self):
        """The status and the fields."""
        data = await self.reader.readuntil(b'\r\n\r\n')
        first, *rest = data.decode('latin-1').strip().split('\r\n')
        fields = (line.partition(':') for line in rest)
        return int(first.split(' ')[1]), {name.lower(): text.strip() for name, _, text in fields}

    async def chunk(self):
        size = int((await self.reader.readuntil(b'\r\n')), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def events(self):
        """(event id, name, message) of each event, to the end; comments are left out. Where an
        event has no data the message is {}."""
        text = b''
        while piece := await self.chunk():
            text += piece
            *blocks, text = text.split(b'\n\n')
            for block in blocks:
                pairs = (line.partition(b': ') for line in block.split(b'\n'))
                found = {name.decode(): value for name, _, value in pairs}
                data = found.get('data', b'')
                if 'data' in found:
                    yield (found.get('id', b'').decode(), found.get('event', b'').decode(),
                           json.loads(data) if data.startswith(b'{') else {'text': data.decode()})

    async def ask(self, request):
        """The status, the fields and the answer, which may be the last event of a stream."""
        self.send(request)
        status, fields = await self.head()
        if fields.get('transfer-encoding') == 'chunked':
            return status, fields, [message async for _, _, message in self.events()][-1]
        body = await self.reader.readexactly(int(fields.get('content-length', 0)))
        is_json = fields.get('content-type', '').startswith('application/json')
        return status, fields, json.loads(body) if is_json else {}

    def stall(self):
        """Takes nothing from the kernel any more."""
        self.writer.transport.pause_reading()

    def close(self, reset=False):
        """Drops what was not read."""
        if reset:
            self.writer.get_extra_info('socket').setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.writer.transport.abort()


async def ask(port, request):
    """By a connection of its own, which may meet any worker."""
    link = await Link.open(port)
    try:
        return await link.ask(request)
    finally:
        link.close()
