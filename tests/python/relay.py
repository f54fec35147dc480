# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""relay.py FROM TO ...: forwards TCP connections to FROM (host:port) to TO, as a gateway does. Says "ready" once it
listens, and ends with its standard input."""

import asyncio
import contextlib
import sys

DIAL_S = 60.0


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(1 << 16):
            writer.write(block)
            await writer.drain()
        writer.write_eof()


async def dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The server behind may still be starting: a connection that ends at once would look like a lost one."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + DIAL_S
    while True:
        try:
            return await asyncio.open_connection(host, port)
        except OSError:
            if loop.time() > ends:
                raise
        await asyncio.sleep(0.1)


async def forward(to: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    host, _, port = to.rpartition(":")
    try:
        behind_reader, behind_writer = await dial(host, int(port))
        with contextlib.closing(behind_writer):
            await asyncio.gather(copy(reader, behind_writer), copy(behind_reader, writer))
    except OSError:
        pass  # the connection outside ends too
    finally:
        writer.close()


async def main(words: list[str]) -> None:
    for place, to in zip(words[::2], words[1::2], strict=True):
        host, _, port = place.rpartition(":")
        await asyncio.start_server(lambda r, w, to=to: forward(to, r, w), host, int(port))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
