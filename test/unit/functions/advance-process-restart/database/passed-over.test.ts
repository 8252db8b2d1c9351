/** Pods that are ready although their nodes do not run: the others of the database are asked as well. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { askDatabase, databaseOf } from "../../../../../functions/advance-process-restart/database/exchange.ts";
import type { Context } from "../../../../../functions/shared/contract/context.ts";
import { parsePod } from "../../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../../../../functions/shared/workloads/statefulsets.ts";

const annotations = {
  ...{ "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" },
  ...{ "sluice.dev/restart-database": "opensearch", "sluice.dev/restart-database-url": "http://:9200" },
};
const metadata = { name: "os", namespace: "data", uid: "u", resourceVersion: "1", annotations };
const workload = parseStatefulSet({ metadata, spec: { serviceName: "os" } });

/** A database of ready pods, of which these run. Each question is asked a second after the one before. */
function scene(count: number) {
  const running = new Set<string>();
  let nowMs = 0;
  let asked: string[] = [];
  const conditions = [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }] as const;
  const pods = Array.from({ length: count }, (_, ordinal) => {
    const own = { name: `os-${ordinal}`, namespace: "data", uid: `uid-${ordinal}`, resourceVersion: "1" };
    return parsePod({ metadata: own, status: { phase: "Running", conditions: [...conditions] } });
  });
  const send = async ({ pod }: { readonly pod: string }) => {
    nowMs += 1;
    asked.push(pod);
    return running.has(pod) ? { status: 200, body: "{}" } : { status: 502, body: "" };
  };
  const context = { cluster: { monotonicMs: () => nowMs }, pods: { send } } as unknown as Context;
  const question = { method: "GET", path: "/", read: () => true } as const;
  const ask = async (last?: string) => {
    nowMs += 1_000;
    asked = [];
    const database = databaseOf(context, [{ workload, pods }], last) ?? assert.fail("no database is named");
    const isKnown = "value" in (await askDatabase(database, question));
    return `${asked.map((name) => name.replace("os-", "")).join(" ")}${isKnown ? " answers" : ""}`;
  };
  return { running, ask, wait: (ms: number) => (nowMs += ms) };
}

test("a member that could not answer is asked after the others for 30 s, so that each one has its turn", async () => {
  const { running, ask, wait } = scene(5);
  assert.deepEqual([await ask(), await ask(), await ask()], ["0 1 2", "3 4 0", "1 2 3"]);
  running.add("os-4");
  assert.equal(await ask(), "4 answers");
  assert.equal(await ask(), "4 answers", "it is asked first from then on");
  wait(30_000);
  assert.equal(await ask(), "0 1 2", "the others may answer again by now");
});

test("the pod that is restarted comes after those that may answer, and before those that could not", async () => {
  const { running, ask } = scene(4);
  running.add("os-0");
  assert.equal(await ask("uid-0"), "1 2 3");
  assert.equal(await ask("uid-0"), "0 answers");
});
