/** Every recorded request of test/fixtures, replayed against the fake cluster over HTTP. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { CertificateSettings } from "../../../../functions/shared/certificates/settings.ts";
import { connect, type KubernetesCluster } from "../../../../functions/shared/kubernetes/client.ts";
import { readRecording, replay } from "../../../../triggers/replay/replay.ts";
import { readSettings } from "../../../../triggers/settings/settings.ts";
import { admissionFunctions, cronFunctions, groupFunctions } from "../../../../triggers/table.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { namespace, newImage, type ServedGroup, serveGroup } from "../../../support/served-group.ts";

const certificate: CertificateSettings = {
  secret: { namespace, name: "sluice-certificate" },
  namespaces: [namespace],
  dnsName: `rollout-operator.${namespace}.svc`,
  organisation: "Grafana Labs",
  lifetimeMs: 365 * 24 * 3_600_000,
  updatesBundles: true,
};
/** Control characters other than line ends, and marks that change the direction of text. */
const moving = /(?!\n)[\p{Cc}\p{Bidi_Control}]/u;
const folder = new URL("../../../fixtures/", import.meta.url).pathname;
const rolling = [
  "function  advance-zone-rollout",
  "object    group demo/db",
  "zone      db-zone-a",
  "guard     rolling",
  "sentence  rolling db-zone-a: 1 of 2 outdated pods go now, 1 may be down",
  "would do  delete db-zone-a-0",
];
const reserving = (pod: string, path = "/pods/eviction/pin") => [
  `request   POST ${path}`,
  "answer    200, an AdmissionReview",
  "function  evaluate-eviction",
  `object    demo/${pod} (CREATE, eviction)`,
  `zone      ${pod.replace(/-\d+$/, "")}`,
  "guard     allowed",
  `would do  reserve ${pod} in the ledger of its group, and allow it`,
];
const event = (result: string) => ["request   POST /", `answer    ${result}`];

/** The result of each request in a group whose template has just changed. */
const expected: Readonly<Record<string, readonly string[]>> = {
  "statefulset-update.json": [...event("204, queued"), ...rolling],
  "statefulset-update-structured.json": [...event("204, queued"), ...rolling],
  "pod-delete.json": [...event("204, queued"), ...rolling],
  "ping.json": [...event("204, queued"), "function  rotate-certificate", ...rolling],
  "webhook-configuration-update.json": [
    ...event("204, queued"),
    "function  rotate-certificate",
    "guard     shadow-mode",
  ],
  "statefulset-gone.json": [
    ...event("204, queued"),
    "object    StatefulSet demo/db-zone-gone",
    "sentence  it is gone, so that it is in no group, and no function is triggered",
  ],
  "config-map-update.json": [
    ...event("204, ignored"),
    "sentence  no function is triggered: its type, its kind or its name triggers no function, or its namespace is not served; NAMESPACE=demo is served",
  ],
  "statefulset-without-name.json": event(
    "400, malformed, This is not a CloudEvent that can be accepted: it does not say the name of its object.",
  ),
  "eviction.json": reserving("db-zone-a-0"),
  "eviction-v1beta1.json": reserving("db-zone-a-1"),
  "eviction-without-kind.json": reserving("db-zone-c-0"),
  "eviction-validating.json": reserving("db-zone-b-1", "/admission/pod-eviction?timeout=10s"),
  "eviction-pod-gone.json": [
    "object    demo/db-zone-a-9 (CREATE, eviction)",
    "guard     pod-gone",
    'sentence  pods "db-zone-a-9" not found',
    "would do  refuse it with 404 NotFound",
  ],
  "review-without-kind.json": [
    "request   POST /pods/eviction/pin",
    "answer    400, This is not an AdmissionReview that can be answered: its kind is missing.",
  ],
  "budget.json": [
    "request   POST /admission/zpdb-validation",
    "function  validate-zone-budget",
    "object    demo/db (CREATE)",
    "guard     allowed",
    "would do  allow it, and reserve nothing",
  ],
  "budget-invalid.json": [
    "function  validate-zone-budget",
    "guard     invalid-budget",
    "sentence  spec.maxUnavailable is -1: write an integer of at least 0, or use maxUnavailablePercentage",
    "would do  refuse it with 400 BadRequest",
  ],
};

describe("a recorded request is replayed", () => {
  let stage: ServedGroup;
  let scratch: string;
  let kubeconfig: string;
  let cluster: KubernetesCluster;

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
    for (const statefulSet of stage.group.statefulSets) stage.world.changeTemplate(statefulSet, newImage);
    scratch = await mkdtemp(join(tmpdir(), "sluice-replay-"));
    kubeconfig = join(scratch, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
    cluster = await connect({ userAgent: "replay", kubeconfig });
  });

  after(async () => {
    await cluster?.close();
    await stage?.close();
    if (scratch !== undefined) await rm(scratch, { recursive: true, force: true });
  });

  async function replayFile(file: string, environment: Readonly<Record<string, string>> = {}) {
    const recorded = await readRecording(file, admissionFunctions);
    assert.ok(!("mistake" in recorded), file);
    return replay(recorded, {
      ...{ cluster, version: "1.2.3", namespaces: [namespace] },
      settings: readSettings({ SLUICE_MODE: "act", ...environment }).settings,
      certificate,
      ...{ definitions: groupFunctions, admissions: admissionFunctions, crons: cronFunctions },
    });
  }

  /** Requests to the API server, without those of the kubelets and controllers of the fake cluster. */
  const verbs = () => new Set(stage.served.requests().map(({ verb }) => verb));

  test("every fixture is decided by its function, and the replay prints zone, guard, message and planned act", async () => {
    assert.deepEqual(
      (await readdir(folder)).filter((file) => file.endsWith(".json")).sort(),
      Object.keys(expected).sort(),
    );
    for (const [file, lines] of Object.entries(expected)) {
      const { text, troubles } = await replayFile(`${folder}${file}`);
      assert.deepEqual(troubles, [], file);
      const reported = text.split("\n");
      for (const line of lines) assert.ok(reported.includes(line), `${file}: no line "${line}" in\n${text}`);
      assert.equal(reported.at(-1), "Nothing was written: a replay decides in shadow mode.");
    }
  });

  test("the README lists exactly the fixtures that exist", async () => {
    const rows = (await readFile(`${folder}README.md`, "utf8")).matchAll(/^\| `([^`]+)` +\|/gm);
    assert.deepEqual([...rows].map(([, file]) => file).sort(), Object.keys(expected).sort());
  });

  test("a replay never writes to the cluster, neither Leases nor anything else, even with SLUICE_MODE=act", async () => {
    const before = stage.world.store.list("leases");
    for (const file of Object.keys(expected)) await replayFile(`${folder}${file}`, { SLUICE_MODE: "act" });
    assert.deepEqual([...verbs()].sort(), ["get", "list"]);
    assert.deepEqual(stage.world.store.list("leases").items, before.items);
  });

  /** A fixture with different content. */
  async function changed(name: string, change: (text: string) => string): Promise<string> {
    const file = join(scratch, name);
    await writeFile(file, change(await readFile(`${folder}${name}`, "utf8")));
    return file;
  }

  test("the replay distinguishes a StatefulSet without a group from a missing one", async () => {
    stage.world.store.create("statefulsets", namespace, {
      metadata: { name: "alone" },
      spec: { replicas: 0, selector: { matchLabels: { app: "alone" } }, template: {} },
    });
    const file = await changed("statefulset-update.json", (text) => text.replaceAll("db-zone-a", "alone"));
    const { text } = await replayFile(file);
    assert.match(text, /^object {4}StatefulSet demo\/alone\nsentence {2}it has no label rollout-group, /m);
  });

  test("the replay prints with which code and why a review would be refused, although shadow mode allows everything", async () => {
    stage.world.store.delete("pods", { namespace, name: "db-zone-c-1" });
    const { text } = await replayFile(`${folder}eviction.json`);
    assert.match(text, /^guard {5}zones-down$/m);
    assert.match(
      text,
      /^sentence {2}1 pod not ready in db-zone-c: no pod of db-zone-a goes until that zone is whole$/m,
    );
    assert.match(text, /^would do {2}refuse it with 429 TooManyRequests$/m);
  });

  test("text of others cannot move the terminal's cursor, because control and direction characters are escaped", async () => {
    const file = await changed("statefulset-update.json", (text) =>
      text.replace('"ce-name": "db-zone-a"', '"ce-name": "db\\u202e-zone-a"').replaceAll("ce-name", "Ce-Name"),
    );
    const recorded = await readRecording(file, admissionFunctions);
    assert.ok("mistake" in recorded, "no header can contain it");
    const budget = await changed("budget.json", (text) =>
      text.replace('"name": "db"', '"name": "db\\u202e\\u001b[2J"'),
    );
    const { text } = await replayFile(budget);
    assert.match(text, /db\\u202e\\u001b\[2J/);
    assert.doesNotMatch(text, moving);
  });
});
