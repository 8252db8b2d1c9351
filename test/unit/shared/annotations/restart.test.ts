/** The annotations about restarts of processes: their grammar, and what malformed ones mean. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  databaseRules,
  parsePodRestart,
  parseRestart,
  togetherRules,
} from "../../../../functions/shared/annotations/restart.ts";
import { ledgerGroupsOf } from "../../../../functions/shared/groups/governing.ts";
import { CredentialError, readToken } from "../../../../functions/shared/health/credentials.ts";
import { parsePod } from "../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { zoneBudget } from "../../functions/advance-zone-rollout/given.ts";

const metadata = { name: "db", namespace: "data", uid: "u", resourceVersion: "1" };
const phase = "elasticsearch.k8s.elastic.co/restart-phase";
type Texts = Readonly<Record<string, string>>;
const annotated = (texts: Texts) => ({ ...metadata, annotations: texts });
const manager = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "db-token" };

test("a StatefulSet names the port of its process managers and the Secret with their token", () => {
  assert.deepEqual(parseRestart(annotated(manager)), {
    manager: { scheme: "http", port: 9844, secret: "db-token" },
    unchecked: new Set(),
    malformed: [],
  });
  assert.equal(parseRestart(annotated({ other: "x" })), undefined);
});

const database = {
  ...manager,
  "sluice.dev/restart-database": "opensearch",
  "sluice.dev/restart-database-url": "https://:9200  http://:9201",
};

test("a StatefulSet names its database, one or two addresses in their order, and a Secret or none", () => {
  const urls = [
    { scheme: "https", port: 9200 },
    { scheme: "http", port: 9201 },
  ];
  const { manager: named, database: asked } = parseRestart(annotated(database)) ?? {};
  assert.deepEqual([named?.port, asked], [9844, { product: "opensearch", urls, secret: undefined }]);
  const login = { "sluice.dev/restart-database-secret": "login", "sluice.dev/restart-database": "elasticsearch" };
  const { database: other } = parseRestart(annotated({ ...database, ...login })) ?? {};
  assert.deepEqual([other?.product, other?.secret], ["elasticsearch", "login"]);
  const none = parseRestart(annotated({ ...database, "sluice.dev/restart-database": "none" }));
  assert.deepEqual(
    [none?.manager?.port, none?.database],
    [9844, undefined],
    "none is not asked, whatever else is written",
  );
});

test("with one annotation missing or malformed no process is restarted, and a message says what to write", () => {
  const { "sluice.dev/restart-manager": _, ...unnamed } = manager;
  const wrong: readonly (readonly [Texts, RegExp])[] = [
    [unnamed, /restart-manager is missing/],
    [{ "sluice.dev/restart-manager": "http://:9844" }, /restart-manager-secret is missing/],
    [{ ...manager, "sluice.dev/restart-manager": "http://other:9844" }, /write http:\/\/:PORT/],
    [{ ...manager, "sluice.dev/restart-manager": "http://:9844/es" }, /write http:\/\/:PORT/],
    [{ ...manager, "sluice.dev/restart-manager-secret": "A B" }, /write the name of a Secret/],
    [{ ...manager, "sluice.dev/restart-database": "mongo" }, /write opensearch, elasticsearch, none/],
    [{ ...manager, "sluice.dev/restart-database": "opensearch" }, /restart-database-url is missing/],
    [{ ...manager, "sluice.dev/restart-database-url": "http://:9200" }, /restart-database is missing/],
    [{ ...manager, "sluice.dev/restart-database-secret": "login" }, /restart-database is missing/],
    [{ ...database, "sluice.dev/restart-database-url": "http://other:9200" }, /write http:\/\/:PORT, https/],
    [{ ...database, "sluice.dev/restart-database-url": "http://:1 http://:2 http://:3" }, /write http:\/\/:PORT/],
    [{ ...database, "sluice.dev/restart-database-url": "http://:9200/path" }, /write http:\/\/:PORT/],
    [{ ...database, "sluice.dev/restart-database-secret": "A B" }, /write the name of a Secret/],
  ];
  for (const [texts, message] of wrong) {
    const parsed = parseRestart(annotated(texts));
    assert.equal(parsed?.manager, undefined);
    assert.match(parsed?.malformed.map((one) => one.message).join() ?? "", message);
  }
  assert.notEqual(parseRestart(annotated({ ...manager, "sluice.dev/restart-database": "none" }))?.manager, undefined);
});

test("rules about the database are switched off by name, or all of them, and an unknown name switches none off", () => {
  const unchecked = (text: string) => parseRestart(annotated({ ...manager, "sluice.dev/restart-unchecked": text }));
  assert.deepEqual(
    [...(unchecked("started-copy, role-elsewhere")?.unchecked ?? [])],
    ["started-copy", "role-elsewhere"],
  );
  assert.deepEqual([...(unchecked("*")?.unchecked ?? [])], [...databaseRules, ...togetherRules]);
  const wrong = unchecked("started-copy,green");
  assert.deepEqual([wrong?.unchecked.size, wrong?.manager === undefined], [0, false], "its processes restart");
  assert.match(wrong?.malformed[0]?.message ?? "", /write \*, or some of database-settled, started-copy/);
});

test("a StatefulSet names both Secrets with files, or neither", () => {
  const [config, mounted] = ["sluice.dev/restart-config", "sluice.dev/restart-mounted"];
  const both = parseRestart(annotated({ ...manager, [config]: "wanted", [mounted]: "mounted" }));
  assert.deepEqual(both?.files, { expected: "wanted", mounted: "mounted" });
  for (const key of [config, mounted]) {
    const half = parseRestart(annotated({ ...manager, [key]: "wanted" }));
    assert.deepEqual([half?.files, half?.manager], [undefined, undefined]);
    assert.match(half?.malformed[0]?.message ?? "", /restart-(config|mounted) is missing/);
  }
});

test("schedule-rolling and schedule-coordinated on a StatefulSet are for each of its pods, and any other phase there is malformed", () => {
  const phased = (text: string) => parseRestart(annotated({ ...manager, [phase]: text }));
  assert.equal(phased("schedule-rolling")?.phaseOfAll, "schedule-rolling");
  assert.equal(phased("schedule")?.phaseOfAll, undefined);
  assert.match(
    phased("schedule")?.malformed[0]?.message ?? "",
    /write schedule-rolling, to restart the processes of its pods/,
  );
  assert.notEqual(phased("schedule")?.manager, undefined);
  assert.equal(parseRestart(annotated({ [phase]: "schedule-rolling" })), undefined, "no process manager is named");
});

test("a StatefulSet without group and budget has a ledger of its own where it names process managers, as its warnings show", () => {
  const lone = parseStatefulSet({ metadata: annotated({ ...manager, "sluice.dev/restart-manager": "x" }) });
  const own = [{ namespace: "data", group: "statefulset:db" }];
  assert.deepEqual(ledgerGroupsOf(lone, []), own);
  assert.deepEqual(ledgerGroupsOf(lone, [zoneBudget("elsewhere", { selector: {} })]), own, "of another namespace");
  const asked = { ...parseStatefulSet({ metadata }), question: {} } as typeof lone;
  assert.deepEqual(ledgerGroupsOf(asked, []), own, "its pods are asked before they go");
  assert.equal(lone.malformed.length, 1);
  assert.deepEqual(ledgerGroupsOf(parseStatefulSet({ metadata }), []), []);
});

test("a pod shows its phase and the id of its restart, and an unknown phase as it is written", () => {
  const shown = { [phase]: "stop", "sluice.dev/restart-id": "restart-1" };
  assert.deepEqual(parsePod({ metadata: annotated(shown) }).restart, { text: "stop", phase: "stop", id: "restart-1" });
  assert.equal(parsePod({ metadata }).restart, undefined);
  const unknown = parsePodRestart(annotated({ [phase]: "x".repeat(1_000) }));
  assert.deepEqual([unknown?.phase, unknown?.text?.length], [undefined, 63]);
  assert.equal(parsePodRestart(annotated({ "sluice.dev/restart-id": "restart-1" }))?.id, "restart-1");
});

test("the token of a Secret becomes a header, and one that no header can carry is refused", async () => {
  const read = (token: string) => {
    const get = () => Promise.resolve({ metadata, data: { token: btoa(token) } });
    return readToken({ get } as never, { namespace: "data", name: "db-token" });
  };
  assert.equal(await read("secret\n"), "Bearer secret");
  for (const token of ["", "two words", "line\nline"])
    await assert.rejects(
      read(token),
      (error: unknown) => error instanceof CredentialError && !error.message.includes("line"),
    );
});
