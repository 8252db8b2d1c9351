/** Tests what the bench of the status reads from a command line, what its viewers do, and how it decides about figures. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readOptions, type StatusOptions } from "../options.ts";
import { seeded } from "../statistics.ts";
import { renderSizes, renderTable } from "./renders.ts";
import { orderOf, ratioOf, type StatusStorm, type StatusTrial, statusBenchmark } from "./status.ts";
import { besideViewers } from "./viewers.ts";

function optionsOf(...argv: string[]): StatusOptions {
  const reading = readOptions(["status", ...argv]);
  return reading.kind === "status" ? reading.options : assert.fail(JSON.stringify(reading));
}

/** A storm whose evictions had this p99. */
function storm(isViewed: boolean, p99Ms: number): StatusStorm {
  const evictions = { answers: 60, perSecond: 6, p50Ms: 10, p99Ms, allowed: 60, allowedPods: {}, refused: 0 };
  const seen = isViewed ? { pages: 300, errors: 0, p50Ms: 5, p99Ms: 50 } : undefined;
  return {
    ...{ evictions: { ...evictions, errors: 0, messages: {} }, seen, timeOverLimit: 1.1, requestsPerPod: 1.2 },
    ...{ cpuSeconds: 1, mostDown: 5, mostZonesDown: 1 },
  } as unknown as StatusStorm;
}

function trialWith(without: readonly number[], beside: readonly number[]): StatusTrial {
  const storms = [...without.map((ms) => storm(false, ms)), ...beside.map((ms) => storm(true, ms))];
  return { contender: "sluice", size: "3x20", load: 0, figures: { storms }, failure: undefined };
}

describe("the bench of the status", () => {
  it("has five storms with viewers and five without, which take turns, and no contender that has no status", () => {
    const options = optionsOf();
    assert.deepEqual([options.repeat, options.parts], [5, ["viewers", "renders"]]);
    assert.deepEqual(
      statusBenchmark(options).turns.map(({ contender }) => contender),
      ["sluice"],
    );
    const order = orderOf(options.repeat, seeded(options.seed));
    assert.equal(order.length, 10);
    for (let at = 0; at < 10; at += 2) assert.notEqual(order[at], order[at + 1]);
    const firsts = new Set(Array.from({ length: 9 }, (_, seed) => orderOf(1, seeded(seed))[0]));
    assert.equal(firsts.size, 2, "neither of them is always the first");
    const wrong = readOptions(["status", "--contenders", "peer-tuned", "--against", ".", "--only", "storm"]);
    assert.equal(wrong.kind === "wrong" && wrong.mistakes.length, 3, JSON.stringify(wrong));
  });

  it("keeps its bound while the median p99 with viewers is at most a tenth above that without", () => {
    const { isKept, tables } = statusBenchmark(optionsOf());
    const kept = [trialWith([100, 90, 500], [110, 109, 900])];
    assert.equal(ratioOf(kept[0]?.figures?.storms ?? []), 1.1);
    assert.equal(isKept?.(kept), true);
    assert.match(tables(kept)[0] ?? "", /p99, ms +100 \(90–500\) +110 \(109–900\) +1\.10\n/);
    const broken = [trialWith([100, 100, 100], [111, 111, 90])];
    assert.equal(isKept?.(broken), false);
    assert.match(tables(broken)[0] ?? "", /p99, ms +100 +111 \(90–111\) +! 1\.11\n/);
    assert.equal(isKept?.([trialWith([100], [])]), false, "no figures are no proof");
    assert.equal(isKept?.([{ ...trialWith([], []), figures: undefined, failure: "it ended" }]), false);
  });

  it("has viewers of which each keeps its connection and asks again, until the work has ended", async () => {
    const requests = new Map<number | undefined, number>();
    let seenByAll = () => {};
    const thrice = new Promise<void>((resolve) => {
      seenByAll = resolve;
    });
    const server = createServer(({ socket: { remotePort } }, response) => {
      requests.set(remotePort, (requests.get(remotePort) ?? 0) + 1);
      // A viewer asks for the third time when it has the second page.
      if (requests.size === 64 && [...requests.values()].every((count) => count >= 3)) seenByAll();
      response.end("the page");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      let atStart = 0;
      const { result, seen } = await besideViewers({ url, count: 64, everyMs: 50 }, async () => {
        atStart = requests.size;
        await thrice;
        return "worked";
      });
      assert.deepEqual([result, atStart, requests.size, seen.errors], ["worked", 64, 64, 0]);
      assert.ok(seen.pages >= 128, `${seen.pages}`);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("does not begin the storm where viewers get no page", async () => {
    const server = createServer((_, response) => response.writeHead(503).end()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const begun = besideViewers({ url, count: 2, everyMs: 10 }, () => assert.fail("the storm began"));
      await assert.rejects(begun, /of 2 viewers did not get the page/);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("renders both sizes by the shipped endpoints, and ends with 1 where a median is above its bound", () => {
    const args = [join(import.meta.dirname, "../main.ts"), "status", "--only", "renders"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    const rows = stdout.split("\n").filter((line) => renderSizes.some(({ label }) => line.includes(label)));
    assert.equal(rows.length, renderSizes.length, stdout + stderr);
    assert.equal(status, rows.some((row) => row.includes("!")) ? 1 : 0, stdout);
    const [first = assert.fail()] = renderSizes;
    const figures = { size: first, readMs: [1], bytes: 3_500 };
    const table = renderTable([
      { ...figures, renderMs: [10, 10, 99] },
      { ...figures, renderMs: [11, 11, 1] },
    ]);
    const shown = table.match(/(?<=at work +)(! )?\d+\.\d/g);
    assert.deepEqual(shown, ["10.0", "! 11.0"]);
  });
});
