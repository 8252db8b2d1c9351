import assert from "node:assert/strict";
import { suite, test } from "node:test";
import {
  formatHere,
  formatVerdict,
  herePathOf,
  mostBodyBytes,
  parseHere,
  parseQuestion,
  parseVerdict,
  type VerdictBody,
  verdictPathOf,
} from "../../../../../functions/fence-node/agent/peer-messages.ts";
import { bootId, fenceId } from "./world.ts";

const nonce = "0123456789abcdef".repeat(2);
const question = { node: "node-1.example", boot: bootId, nonce };
const alive: VerdictBody = { ...question, verdict: "alive", peer: "node-2", fenceId: undefined };
const stop: VerdictBody = { ...alive, verdict: "stop", fenceId };
const bodyOf = (fields: object | string): Buffer =>
  Buffer.from(typeof fields === "string" ? fields : JSON.stringify(fields));
const longest = "a".repeat(247);

suite("what agents ask each other", () => {
  test("a question is read as it was asked", () => {
    assert.deepEqual(parseQuestion(verdictPathOf(question)), { kind: "verdict", ...question });
    assert.deepEqual(parseQuestion(herePathOf(nonce)), { kind: "here", nonce });
    const long = { node: longest, boot: "b".repeat(64), nonce };
    assert.deepEqual(parseQuestion(verdictPathOf(long)), { kind: "verdict", ...long });
  });

  test("a name, a boot or a nonce that does not parse makes a question malformed", () => {
    for (const change of [
      { node: "" },
      { node: "Node" },
      { node: "a/b" },
      { node: "../x" },
      { node: `${longest}a` },
      { boot: "" },
      { boot: "a b" },
      { boot: "b".repeat(65) },
      { boot: "b\n" },
      { nonce: "" },
      { nonce: nonce.slice(1) },
      { nonce: `${nonce}0` },
      { nonce: nonce.toUpperCase() },
    ]) {
      assert.equal(parseQuestion(verdictPathOf({ ...question, ...change })).kind, "malformed", JSON.stringify(change));
    }
    assert.equal(parseQuestion("/v1/here").kind, "malformed");
    assert.equal(parseQuestion("/v1/verdict/node-1").kind, "malformed");
    assert.equal(parseQuestion(`/v1/verdict/node-1?boot=${bootId}`).kind, "malformed");
  });

  test("a parameter that stands twice makes a question malformed, and an unknown one is ignored", () => {
    const path = verdictPathOf(question);
    assert.equal(parseQuestion(`${path}&nonce=${nonce}`).kind, "malformed");
    assert.equal(parseQuestion(`${path}&boot=other`).kind, "malformed");
    assert.equal(parseQuestion(`${path}&later=1`).kind, "verdict");
  });

  test("no other path is a question", () => {
    for (const path of ["", "/", "*", "/v1/here/", `/v1/hereafter?nonce=${nonce}`, "/v1/verdict", "http://x/v1/here"]) {
      assert.equal(parseQuestion(path).kind, "other-path", path);
    }
  });
});

suite("what agents answer each other", () => {
  test("an answer is read as it was written", () => {
    assert.deepEqual(parseVerdict(formatVerdict(alive)), alive);
    assert.deepEqual(parseVerdict(formatVerdict(stop)), stop);
    assert.deepEqual(parseHere(formatHere({ peer: "node-2", nonce })), { peer: "node-2", nonce });
  });

  test("the longest answer has at most 1 KiB, and a longer body is none", () => {
    const body = formatVerdict({
      ...stop,
      node: longest,
      peer: longest,
      boot: "b".repeat(64),
      fenceId: "f".repeat(64),
    });
    assert.ok(body.length <= mostBodyBytes);
    assert.notEqual(parseVerdict(body), undefined);
    assert.notEqual(parseVerdict(Buffer.concat([body, Buffer.alloc(mostBodyBytes - body.length, " ")])), undefined);
    assert.equal(parseVerdict(Buffer.concat([body, Buffer.alloc(mostBodyBytes - body.length + 1, " ")])), undefined);
  });

  test("a stop names its fence, and no other verdict has one", () => {
    assert.equal(parseVerdict(formatVerdict({ ...stop, fenceId: undefined })), undefined);
    for (const id of ["", "a b", "f".repeat(65), 7, null]) {
      assert.equal(parseVerdict(bodyOf({ ...stop, fenceId: id })), undefined, JSON.stringify(id));
    }
    for (const verdict of ["alive", "no-api", "unknown"]) {
      assert.notEqual(parseVerdict(bodyOf({ ...alive, verdict })), undefined);
      assert.equal(parseVerdict(bodyOf({ ...alive, verdict, fenceId })), undefined);
    }
  });

  test("an answer of one kind is none of the other", () => {
    assert.equal(parseHere(formatVerdict(alive)), undefined);
    assert.equal(parseHere(formatVerdict(stop)), undefined);
    assert.equal(parseVerdict(formatHere({ peer: "node-2", nonce })), undefined);
  });

  test("a missing field, one too many, or one of another form makes a verdict none", () => {
    for (const name of ["verdict", "node", "boot", "nonce", "peer"]) {
      const { [name]: _, ...rest } = { ...alive } as Record<string, unknown>;
      assert.equal(parseVerdict(bodyOf(rest)), undefined, name);
      for (const value of ["", "A b", 7, null, {}, ["alive"]]) {
        assert.equal(parseVerdict(bodyOf({ ...alive, [name]: value })), undefined, `${name} ${JSON.stringify(value)}`);
      }
    }
    assert.equal(parseVerdict(bodyOf({ ...alive, later: 1 })), undefined);
    for (const text of ["", "x", "[]", "null", '"alive"', "{}", '{"__proto__":{"verdict":"alive"}}']) {
      assert.equal(parseVerdict(bodyOf(text)), undefined, text);
      assert.equal(parseHere(bodyOf(text)), undefined, text);
    }
  });

  test("a missing field, one too many, or one of another form makes an answer to a drill none", () => {
    const here = { peer: "node-2", nonce };
    for (const change of [{ peer: "A b" }, { peer: 7 }, { nonce: "x" }, { nonce: 7 }, { later: 1 }]) {
      assert.equal(parseHere(bodyOf({ ...here, ...change })), undefined, JSON.stringify(change));
    }
    assert.equal(parseHere(bodyOf({ nonce })), undefined);
    assert.equal(parseHere(bodyOf({ peer: "node-2" })), undefined);
  });
});
