/** What the Tab key offers after `kubectl sluice`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { complete, readWritten } from "../../../../triggers/plugin/completion.ts";
import { Harness } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

/** A bar marks the start of the word that is being typed. The look-ups are returned as well. */
async function offered(line: string): Promise<readonly string[]> {
  const listed: string[] = [];
  const found = async <T>(what: string, names: T): Promise<T> => {
    listed.push(what);
    return names;
  };
  const names = {
    groups: () => found("groups", ["ingester", "index"]),
    reserved: (group: string) => found(`reserved ${group}`, ["ingester-zone-a-0"]),
    suspended: () => found("suspended", { claims: ["data-db-0"], groups: ["db"] }),
  };
  const words = await complete(line.split(" "), names);
  return [...listed.map((what) => `(${what})`), ...words];
}

test("commands first, by their beginning; no request is made for them", async () => {
  assert.deepEqual(await offered(""), ["recover", "release", "suspended", "why"]);
  assert.deepEqual(await offered("re"), ["recover", "release"]);
  assert.deepEqual(await offered("-n mimir w"), ["why"]);
  assert.deepEqual(await offered("unknown "), []);
});

test("then the names that the command takes, as many as it takes", async () => {
  assert.deepEqual(await offered("why "), ["(groups)", "index", "ingester"]);
  assert.deepEqual(await offered("why -n mimir ing"), ["(groups)", "ingester"]);
  assert.deepEqual(await offered("why ingester "), []);
  assert.deepEqual(await offered("release ingester "), ["(reserved ingester)", "ingester-zone-a-0"]);
  assert.deepEqual(await offered("release ingester ingester-zone-a-0 "), []);
  assert.deepEqual(await offered("suspended "), ["(suspended)", "db"]);
  assert.deepEqual(await offered("recover "), ["(suspended)", "data-db-0", "db", "process-groups"]);
  assert.deepEqual(await offered("recover process-groups orders "), []);
  assert.deepEqual(await offered("recover data-db-0 "), ["(suspended)", "db"], "and no name twice");
});

test("the options that the command has, and the words that an option takes", async () => {
  assert.deepEqual(await offered("why --"), ["--context", "--help", "--kubeconfig", "--namespace", "--output"]);
  assert.deepEqual(await offered("release --d"), ["--dry-run"]);
  assert.deepEqual(await offered("suspended -o "), ["json", "yaml"]);
  assert.deepEqual(await offered("why --output "), ["json"]);
  assert.deepEqual(await offered("why -n "), [], "no group is a namespace");
  assert.deepEqual(readWritten(["why", "-n", "mimir", "--context", "blue", "x"]), {
    names: ["why"],
    namespace: "mimir",
    kubeconfig: undefined,
    context: "blue",
  });
});

test("the shell learns of no file, of no failure, and of what there is; nothing is written", async () => {
  const harness = new Harness({});
  const { code, out, err } = await sluice(harness, "__complete why gr");
  assert.deepEqual([code, out, err], [0, "group\n:4\n", []]);
  const failing = { ...harness.cluster, list: () => Promise.reject(new Error("away")) } as never;
  assert.deepEqual(await sluice(harness, "__complete why gr", failing), { code: 0, out: ":4\n", err: [] });
  assert.deepEqual(writes(harness), []);
});
