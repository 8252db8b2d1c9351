import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { formatNotedAgent, type NotedAgent, recordAgent } from "../../../../functions/shared/annotations/fencing.ts";
import {
  agentAddresses,
  agentKey,
  formatAddresses,
  formatPeers,
  mostPeers,
  parsePeers,
} from "../../../../functions/shared/annotations/fencing-peers.ts";

const print = "0123456789abcdef";
const listOf = (count: number) => Array.from({ length: count }, (_, at) => `node-${at}=${print}`).join(" ");

suite("the peers of an agent", () => {
  test("a list is read as it is written, by name", () => {
    const peers = [
      { name: "node-b.example.com", fingerprint: print },
      { name: "a", fingerprint: "f".repeat(16) },
    ];
    assert.equal(formatPeers(peers), `a=${"f".repeat(16)} node-b.example.com=${print}`);
    assert.deepEqual(parsePeers(formatPeers(peers)), peers.toReversed());
    assert.deepEqual(parsePeers(""), []);
  });

  test("a list that names a node twice, is too long, or has any other form is no list", () => {
    assert.equal(parsePeers(listOf(mostPeers))?.length, mostPeers);
    const wrong = [
      `a=${print} a=${"f".repeat(16)}`,
      listOf(mostPeers + 1),
      `a=${print}  b=${print}`,
      `a=${print} `,
      `a=${print}=`,
      `A=${print}`,
      `-a=${print}`,
      `a=${print.slice(1)}`,
      `a=${print.toUpperCase()}`,
      `=${print}`,
      "a",
    ];
    for (const text of wrong) assert.equal(parsePeers(text), undefined, text);
  });

  test("a key has the 43 characters of 32 bytes", () => {
    assert.equal(agentKey.parse(`${"A-_0".repeat(10)}abc`), `${"A-_0".repeat(10)}abc`);
    for (const text of ["", "A".repeat(42), "A".repeat(44), "=".repeat(43)])
      assert.equal(agentKey.parse(text), undefined);
  });

  test("addresses of both families are read as they are written", () => {
    const addresses = [
      { host: "10.0.0.7", port: 9843 },
      { host: "fd00::7", port: 9843 },
    ];
    assert.equal(formatAddresses(addresses), "10.0.0.7:9843 [fd00::7]:9843");
    assert.deepEqual(agentAddresses.parse(formatAddresses(addresses)), addresses);
    for (const text of ["", "10.0.0.7", "10.0.0.7:0", "10.0.0.7:65536", "fd00::7:9843", "example.com:1", "10.0.0.7:1 "])
      assert.equal(agentAddresses.parse(text), undefined, text);
  });

  test("a record names the peers, the boot and the times of the agent that it was armed for", () => {
    const base = { uid: "u", resourceVersion: "3", mode: "armed" } as const;
    const nothing = { bootId: undefined, permitMs: undefined, watchdogMs: undefined, peers: [] };
    const whole = {
      ...base,
      bootId: "b",
      permitMs: 40_000,
      watchdogMs: 10_000,
      peers: [{ name: "a", fingerprint: print }],
    };
    for (const agent of [{ ...base, ...nothing }, whole] satisfies NotedAgent[])
      assert.deepEqual(recordAgent.parse(formatNotedAgent(agent)), agent);
    assert.deepEqual(recordAgent.parse(JSON.stringify(base)), { ...base, ...nothing }, "as an older version wrote it");
    const wrong = [
      { ...base, mode: "other" },
      { ...base, peers: ["a"] },
      { ...base, peers: "a" },
      { ...base, permitMs: "40" },
      { ...base, watchdogMs: null },
      { ...base, bootId: 1 },
      { mode: "armed" },
    ];
    for (const agent of wrong) assert.equal(recordAgent.parse(JSON.stringify(agent)), undefined, JSON.stringify(agent));
  });
});
