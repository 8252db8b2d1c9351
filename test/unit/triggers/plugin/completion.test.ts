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
    pods: (group: string) => found(`pods ${group}`, ["db-0"]),
    zones: (group: string) => found(`zones ${group}`, ["ingester-zone-a", "ingester-zone-b"]),
    reserved: (group: string) => found(`reserved ${group}`, ["ingester-zone-a-0"]),
    suspended: () => found("suspended", { claims: ["data-db-0"], groups: ["db"] }),
    nodes: () => found("nodes", ["node-1"]),
  };
  const words = await complete(line.split(" "), names);
  return [...listed.map((what) => `(${what})`), ...words];
}

test("the commands are offered first, by their beginning, without a request to the API server", async () => {
  assert.deepEqual(await offered(""), [
    "check",
    "confirm",
    "drain",
    "fence",
    "fenced",
    "page",
    "pause",
    "recover",
    "release",
    "restart",
    "resume",
    "status",
    "suspended",
    "version",
    "wait",
    "why",
  ]);
  assert.deepEqual(await offered("re"), ["recover", "release", "restart", "resume"]);
  assert.deepEqual(await offered("-n mimir w"), ["wait", "why"]);
  assert.deepEqual(await offered("unknown "), []);
});

test("after a command its names are offered, up to the number that it takes", async () => {
  assert.deepEqual(await offered("why "), ["(groups)", "index", "ingester"]);
  assert.deepEqual(await offered("why -n mimir ing"), ["(groups)", "ingester"]);
  assert.deepEqual(await offered("why ingester "), []);
  assert.deepEqual(await offered("version "), []);
  assert.deepEqual(await offered("version --c"), ["--context"]);
  assert.deepEqual(await offered("status "), ["(groups)", "index", "ingester"]);
  assert.deepEqual(await offered("status ingester "), []);
  assert.deepEqual(await offered("status --w"), ["--watch"]);
  assert.deepEqual(await offered("check "), []);
  assert.deepEqual(await offered("page "), []);
  assert.deepEqual(await offered("page --p"), ["--port"]);
  assert.deepEqual(await offered("page --port "), []);
  assert.deepEqual(await offered("wait "), ["(groups)", "index", "ingester"]);
  assert.deepEqual(await offered("wait ingester "), []);
  assert.deepEqual(await offered("release ingester "), ["(reserved ingester)", "ingester-zone-a-0"]);
  assert.deepEqual(await offered("release ingester ingester-zone-a-0 "), []);
  for (const command of ["pause", "resume"]) {
    assert.deepEqual(await offered(`${command} `), ["(groups)", "index", "ingester"]);
    assert.deepEqual(await offered(`${command} ingester ingester-zone-b`), ["(zones ingester)", "ingester-zone-b"]);
    assert.deepEqual(await offered(`${command} ingester ingester-zone-b `), []);
    assert.deepEqual(await offered(`${command} --d`), ["--dry-run"]);
  }
  assert.deepEqual(await offered("restart "), ["(groups)", "index", "ingester"]);
  assert.deepEqual(await offered("restart db "), ["(pods db)", "db-0"]);
  assert.deepEqual(await offered("restart db db-0 "), []);
  assert.deepEqual(await offered("suspended "), ["(suspended)", "db"]);
  assert.deepEqual(await offered("recover "), ["(suspended)", "data-db-0", "db", "process-groups"]);
  assert.deepEqual(await offered("recover process-groups orders "), []);
  for (const command of ["drain", "fence", "fenced", "confirm"]) {
    assert.deepEqual(await offered(`${command} `), ["(nodes)", "node-1"]);
    assert.deepEqual(await offered(`${command} node-1 `), []);
  }
  assert.deepEqual(await offered("recover data-db-0 "), ["(suspended)", "db"], "no name is offered twice");
});

test("the options of the command are offered, and the values of an option", async () => {
  assert.deepEqual(await offered("why --"), [
    "--all-namespaces",
    "--context",
    "--help",
    "--kubeconfig",
    "--namespace",
    "--output",
  ]);
  assert.deepEqual(await offered("release --d"), ["--dry-run"]);
  assert.deepEqual(await offered("suspended -o "), ["json", "yaml"]);
  assert.deepEqual(await offered("why --output "), ["json"]);
  assert.deepEqual(await offered("fence --r"), ["--reason"]);
  assert.deepEqual(await offered("fence --reason n"), []);
  assert.deepEqual(await offered("confirm --y"), ["--yes"]);
  assert.deepEqual(await offered("restart --c"), ["--cancel", "--context", "--coordinated"]);
  assert.deepEqual(await offered("wait --for "), ["done", "idle"]);
  assert.deepEqual(await offered("wait ingester --t"), ["--timeout"]);
  assert.deepEqual(await offered("why -n "), [], "a group is not a namespace");
  assert.deepEqual(readWritten(["why", "-n", "mimir", "--context", "blue", "x"]), {
    names: ["why"],
    namespace: "mimir",
    kubeconfig: undefined,
    context: "blue",
  });
});

test("the plugin offers the names that exist, offers no files, hides failures from the shell, and writes nothing", async () => {
  const harness = new Harness({});
  const { code, out, err } = await sluice(harness, "__complete why gr");
  assert.deepEqual([code, out, err], [0, "group\n:4\n", []]);
  assert.equal((await sluice(harness, "__complete restart group group-a-")).out.split("\n")[0], "group-a-0");
  assert.equal((await sluice(harness, "__complete pause group group-")).out, "group-a\ngroup-b\n:4\n");
  const failing = { ...harness.cluster, list: () => Promise.reject(new Error("away")) } as never;
  assert.deepEqual(await sluice(harness, "__complete why gr", failing), { code: 0, out: ":4\n", err: [] });
  assert.deepEqual(writes(harness), []);
});
