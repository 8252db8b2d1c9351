import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AnswerReader } from "./wire.ts";

const answered = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes";
const chunked = "HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n1\r\n!\r\n0\r\n\r\n";
const open = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nlater";

function read(methods: readonly string[], ...pieces: readonly string[]) {
  const reader = new AnswerReader(methods);
  for (const piece of pieces) reader.read(Buffer.from(piece, "latin1"));
  const isClean = reader.end();
  return { isClean, answers: reader.answers.map(({ status, body }) => [status, body]) };
}

describe("the reader of answers", () => {
  const all = answered + chunked + open;
  const answers = [
    [200, "yes"],
    [400, "no!"],
    [503, "later"],
  ];

  it("separates answers that come at once, byte by byte, with a length, in chunks, or up to the end", () => {
    assert.deepEqual(read([], all), { isClean: true, answers });
    assert.deepEqual(read([], ...all), { isClean: true, answers });
  });

  it("expects no body for HEAD, 204 and an interim answer", () => {
    const head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    assert.deepEqual(read(["HEAD", "GET"], head + answered).answers, [
      [200, ""],
      [200, "yes"],
    ]);
    const none = "HTTP/1.1 204 No Content\r\n\r\n";
    assert.deepEqual(read([], `HTTP/1.1 100 Continue\r\n\r\n${none}${answered}`).answers, [
      [204, ""],
      [200, "yes"],
    ]);
  });

  it("reports an answer that was cut off, and one that is no HTTP", () => {
    assert.equal(read([], answered.slice(0, -1)).isClean, false);
    assert.equal(read([], answered + chunked.slice(0, -3)).isClean, false);
    assert.throws(() => read([], "SSH-2.0-x\r\n\r\n"), /no answer of HTTP/);
  });
});
