import assert from "node:assert/strict";
import { test } from "node:test";
import { startTogether } from "./running.ts";

test("of programs that start together, one that cannot start has those ended that did, also one that starts later", async () => {
  const ended: string[] = [];
  const program = (name: string) => ({
    stop: async (graceMs: number) => void ended.push(`${name} within ${graceMs} ms`),
  });
  const late = Promise.withResolvers<ReturnType<typeof program>>();
  const together = startTogether([
    Promise.resolve(program("ingress")),
    Promise.reject(new Error("the filter did not start")),
    late.promise,
  ]);
  late.resolve(program("dispatcher"));
  await assert.rejects(together, /^Error: the filter did not start$/);
  assert.deepEqual(ended, ["ingress within 0 ms", "dispatcher within 0 ms"]);
});

test("programs that start together are told in their order, and none is ended", async () => {
  const ended: string[] = [];
  const program = (name: string) => ({ name, stop: async () => void ended.push(name) });
  const started = await startTogether([Promise.resolve(program("ingress")), Promise.resolve(program("filter"))]);
  assert.deepEqual([started.map(({ name }) => name), ended], [["ingress", "filter"], []]);
});
