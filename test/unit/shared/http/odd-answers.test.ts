/** Answers that no HTTP server gives by itself: pieces of a byte, trailers without a body, endless early answers. */
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { get, type PlayedPods, rejection, withPods } from "../../../support/played-pods.ts";

const limit = { timeout: 30_000 };
const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/** Every call is answered with exactly these bytes, and then with `more` as long as the connection lasts. */
function play({ answer }: PlayedPods, text: string, more?: string): void {
  answer(({ request: { socket } }) => {
    socket.on("error", () => {});
    socket.write(text);
    if (more !== undefined) pour(socket, more.repeat(1_000));
  });
}

function pour(socket: Socket, text: string): void {
  while (!socket.destroyed && socket.write(text));
  if (!socket.destroyed) socket.once("drain", () => pour(socket, text));
}

test("an answer in chunks of one byte is read up to its limit, and not beyond", limit, async () => {
  await withPods({}, async (played) => {
    const { pods, address } = played;
    play(played, `${chunked}${"1\r\nx\r\n".repeat(100_000)}0\r\n\r\n`);
    assert.equal((await pods.send(address, { ...get, mostBytes: 100_000 })).body, "x".repeat(100_000));
    const error = await rejection(pods.send(address, { ...get, mostBytes: 99_999 }));
    assert.deepEqual([error.failed, error.status], ["size", 200]);
  });
});

test("an endless answer in chunks of one byte is dropped at its limit", limit, async () => {
  await withPods({ timeoutMs: 20_000 }, async (played) => {
    play(played, chunked, "1\r\nx\r\n");
    const error = await rejection(played.pods.send(played.address, get));
    assert.deepEqual([error.failed, error.status], ["size", 200]);
  });
});

test("an answer of trailers alone has an empty body, and an endless one exceeds the limit", limit, async () => {
  await withPods({ timeoutMs: 20_000 }, async (played) => {
    play(played, `${chunked}0\r\nx-a: b\r\nx-c: d\r\n\r\n`);
    const { status, body } = await played.pods.send(played.address, get);
    assert.deepEqual([status, body], [200, ""]);
    play(played, `${chunked}0\r\n`, "x-a: b\r\n");
    assert.equal((await rejection(played.pods.send(played.address, get))).failed, "size");
  });
});

test("a few early responses are ignored, and endless ones are refused at once", limit, async () => {
  await withPods({ timeoutMs: 20_000 }, async (played) => {
    const early = "HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n";
    play(played, `${early.repeat(10)}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`);
    assert.equal((await played.pods.send(played.address, get)).body, "ok");
    play(played, early, early);
    const error = await rejection(played.pods.send(played.address, get));
    assert.deepEqual([error.failed, error.sent], ["size", true]);
    assert.match(error.message, /more than 10 answers before it$/);
  });
});
