import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reviewPaths } from "./posts.ts";
import { type Exchange, exchangeOf } from "./requests.ts";

const count = 4_000;
const all = Array.from({ length: count }, (_, number) => exchangeOf(1, number));
const requests = all.flatMap((exchange) => exchange.requests);
const textOf = ({ requests }: Exchange) => requests.map(({ bytes }) => bytes.toString("latin1")).join("|");

describe("malformed requests", () => {
  it("are the same for the same seed, and different for another", () => {
    const again = (seed: number) =>
      Array.from({ length: 200 }, (_, number) => exchangeOf(seed, 199 - number)).reverse();
    assert.deepEqual(again(1), all.slice(0, 200));
    const shared = again(2).filter((exchange, number) => textOf(exchange) === textOf(all[number] as Exchange));
    assert.ok(shared.length < 20, `${shared.length} of 200 are alike`);
  });

  it("hardly ever repeat", () => {
    const different = new Set(all.map(textOf)).size;
    assert.ok(different > 0.85 * count, `${different} of ${count} are different`);
  });

  it("are of every kind: each path, both servers, pipelined, in pieces, in chunks, half-closed and aborted", () => {
    const texts = requests.map(({ bytes }) => bytes.toString("latin1"));
    for (const path of [...reviewPaths, "/", "/events"]) {
      assert.ok(
        texts.some((text) => text.startsWith(`POST ${path} `) || text.startsWith(`POST ${path}?`)),
        path,
      );
    }
    for (const word of [
      "ce-specversion",
      "cloudevents+json",
      "admission.k8s.io/v1beta1",
      "transfer-encoding: chunked",
    ]) {
      assert.ok(texts.filter((text) => text.includes(word)).length > 50, word);
    }
    for (const text of ["[".repeat(20_000), "1e999999", "\xff", "__proto__", "/%ff"]) {
      assert.ok(
        texts.some((other) => other.includes(text)),
        text.slice(0, 20),
      );
    }
    const shares = [
      all.filter(({ endpoint }) => endpoint === "tls"),
      all.filter(({ requests }) => requests.length > 1),
      all.filter(({ pieceBytes }) => pieceBytes < 3_000),
      all.filter(({ ending }) => ending === "half-closes"),
      all.filter(({ ending }) => ending === "aborts"),
      requests.filter(({ isWhole }) => !isWhole),
    ].map(({ length }) => length / count);
    assert.ok(
      shares.every((share) => share > 0.05),
      shares.join(),
    );
  });

  it("come last if HTTP itself is broken or another protocol is asked for, because a server cannot know where the next one begins", () => {
    for (const { requests } of all) {
      assert.ok(requests.slice(0, -1).every(({ isWhole, isUpgrade = false }) => isWhole && !isUpgrade));
    }
    assert.ok(requests.some(({ isUpgrade }) => isUpgrade));
  });

  it("are as long as they say if HTTP is kept", () => {
    for (const { bytes, isWhole, description } of requests) {
      const text = bytes.toString("latin1");
      const length = /\r\ncontent-length: (\d+)\r\n/.exec(text)?.[1];
      if (!isWhole || length === undefined) continue;
      assert.equal(bytes.length - text.indexOf("\r\n\r\n") - 4, Number(length), description);
    }
  });
});
