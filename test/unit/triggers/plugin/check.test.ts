/** What kubectl sluice check finds, and which command mends it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateKeys, issue } from "../../../../functions/shared/certificates/issue.ts";
import { dataOf, type Generation } from "../../../../functions/shared/certificates/secret.ts";
import { type Cluster, ClusterError, KindNotServedError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import manifest from "../../../../package.json" with { type: "json" };
import { Harness, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

const day = 24 * 3_600_000;
const secretName = "rollout-operator-self-signed-certificate";
const keys = generateKeys();

async function certificate(harness: Harness, days = 365): Promise<Pick<Generation, "ca" | "cert" | "key">> {
  const notBeforeMs = harness.cluster.serverTimeMs() - day;
  const subject = {
    dnsNames: ["rollout-operator.db.svc"],
    organisation: "Test",
    notBeforeMs,
    notAfterMs: notBeforeMs + (days + 1) * day,
  };
  return issue(await keys, subject);
}

interface Installation {
  readonly replicas?: readonly string[];
  readonly ready?: number;
  readonly days?: number;
  /** Of the second configuration. */
  readonly caBundle?: string;
  readonly resources?: readonly string[];
}

/** An installation in which nothing is wrong, but for the given differences. */
async function install(changes: Installation = {}): Promise<Harness> {
  const { replicas = [manifest.version, manifest.version], ready = replicas.length, days } = changes;
  const harness = new Harness();
  const { store } = harness.world;
  for (const [index, version] of replicas.entries()) {
    const name = `sluice-${index}`;
    const labels = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": "admission" };
    const containers = [{ name: "sluice", image: `sluice:${version}` }];
    store.create("pods", namespace, { metadata: { name, labels }, spec: { nodeName: "n", containers } });
    const conditions = [
      { type: "Ready", status: index < ready ? "True" : "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
    ];
    store.patch("pods", { namespace, name }, { status: { phase: "Running", conditions } }, "status");
  }
  const generation = await certificate(harness, days);
  store.create("secrets", namespace, { metadata: { name: secretName }, data: dataOf("presented", generation) });
  const bundle = Buffer.from(generation.ca).toString("base64");
  const labels = { "grafana.com/namespace": namespace };
  for (const [name, caBundle] of [
    ["pod-eviction-db", bundle],
    ["no-downscale-db", changes.caBundle ?? bundle],
  ] as const) {
    const resources = changes.resources ?? ["pods/eviction"];
    const webhooks = [{ name: `${name}.test`, clientConfig: { caBundle }, rules: [{ resources }] }];
    store.create("validatingwebhookconfigurations", "", { metadata: { name, labels }, webhooks });
  }
  return harness;
}

interface Answers {
  readonly denied?: readonly string[];
  readonly isServed?: boolean;
  readonly askEviction?: () => Promise<void>;
}

/** Runs it where an account has all rights but `denied`. The fake cluster knows neither discovery nor reviews of rights. */
function check(harness: Harness, { denied = [], isServed = true, askEviction = async () => {} }: Answers = {}) {
  const create = async (resource: string, where: string, body: object, ...rest: []) => {
    if (!resource.endsWith("/selfsubjectaccessreviews"))
      return harness.cluster.create(resource as "pods", where, body, ...rest);
    const { spec } = body as { spec: { resourceAttributes: { verb: string; resource: string; subresource: string } } };
    const { verb, resource: type, subresource } = spec.resourceAttributes;
    const right = `${verb} ${type}${subresource === "" ? "" : `/${subresource}`}`;
    return { metadata: { name: "" }, status: { allowed: !denied.includes(right) } };
  };
  const resourceOf = async (group: string, kind: string) => {
    if (!isServed) throw new KindNotServedError(group, kind);
    return { plural: "zoneawarepoddisruptionbudgets", version: "v1" };
  };
  const cluster = wrapCluster(harness.cluster, { create, resourceOf } as unknown as Partial<Cluster>);
  const ready = async () => ({ gitVersion: "v1.36.2" });
  return sluice(harness, "check", cluster, { askEviction, ready });
}

function lineOf(out: string, name: string): string {
  return out.split("\n").find((line) => line.replace(/^\w+ +/, "").startsWith(`${name} `)) ?? "";
}

test("an installation in which nothing is wrong has a line for each check, code 0, and is not changed", async () => {
  const harness = await install();
  harness.forget();
  const { code, out, err } = await check(harness);
  assert.deepEqual([code, err, writes(harness)], [0, [], []], out);
  const lines = out.trimEnd().split("\n");
  assert.match(lines[0] ?? "", /^RESULT +CHECK +WHAT$/);
  assert.equal(lines.length, 11);
  assert.ok(
    lines.slice(1).every((line) => line.startsWith("ok ")),
    out,
  );
  assert.match(lineOf(out, "replicas"), /2 of 2 replicas ready$/);
  assert.match(lineOf(out, "certificate"), /rollout-operator\.db\.svc until 2027-01-/);
  assert.match(lineOf(out, "webhooks answer"), /the eviction of group-a-0 would be allowed now$/);
});

const failing =
  (code: number, message: string, causes: object[] = []) =>
  () =>
    Promise.reject(
      new ClusterError({ code, reason: "Test", message, verb: "create", resource: "pods/eviction", causes }),
    );

/** What is wrong, in which line it stands, and what the line says. */
const faults: readonly (readonly [
  what: string,
  changes: Installation,
  answers: Answers,
  name: string,
  line: RegExp,
])[] = [
  ["no CRD", {}, { isServed: false }, "CRD", /serves no kind .+ To mend it: kubectl apply --server-side -k \S+crds$/],
  [
    "one replica",
    { replicas: [manifest.version] },
    {},
    "replicas",
    /1 of 1 replicas ready\. To mend it: kubectl scale deployment -n db -l \S+admission --replicas=2$/,
  ],
  [
    "one ready replica",
    { ready: 1 },
    {},
    "replicas",
    /1 of 2 replicas ready\. To mend it: kubectl describe pod -n db /,
  ],
  ["no replica", { replicas: [] }, {}, "replicas", /there is no replica of Sluice\. To mend it: kubectl apply /],
  [
    "another version",
    { replicas: [manifest.version, "99.1.0"] },
    {},
    "versions",
    /1 replica has version 99\.1, .+To mend it: npm run build:plugin/,
  ],
  [
    "a certificate that ends within a week",
    { days: 6 },
    {},
    "certificate",
    /it is not renewed: .+To mend it: kubectl logs -n db /,
  ],
  [
    "no webhook for evictions",
    { resources: ["statefulsets"] },
    {},
    "webhooks registered",
    /no webhook of db asks .+; there are no-downscale-db, pod-eviction-db\. To mend it: kubectl apply /,
  ],
  [
    "no caBundle",
    { caBundle: "" },
    {},
    "webhooks trusted",
    /the caBundle of no-downscale-db does not have .+To mend it: kubectl logs /,
  ],
  [
    "a webhook that fails",
    {},
    { askEviction: failing(500, 'failed calling webhook "pod-eviction.db": refused') },
    "webhooks answer",
    /failed calling webhook .+To mend it: kubectl get endpointslices -n db /,
  ],
  [
    "a right that the user lacks",
    {},
    { denied: ["patch leases", "create pods/eviction"] },
    "your rights",
    /you lack in namespace db: create pods\/eviction \(drain\), patch leases \(release\)\. To mend it: .+ edit --user YOU -n db$/,
  ],
  [
    "the right to ledgers",
    {},
    { denied: ["edit ledgers"] },
    "your rights",
    /edit ledgers \(release\)\. To mend it: .+--clusterrole sluice-operator /,
  ],
];

for (const [what, changes, answers, name, line] of faults) {
  test(`one line is wrong, has the command that mends it, and the code is 1: ${what}`, async () => {
    const { code, out, err } = await check(await install(changes), answers);
    assert.deepEqual([code, err], [1, []]);
    const wrong = out.split("\n").filter((one) => one.startsWith("wrong "));
    assert.deepEqual(wrong, [lineOf(out, name)], out);
    assert.match(wrong[0] ?? "", line);
  });
}

test("a rollout-operator that still runs, and a right that Sluice has reported to lack, are wrong", async () => {
  const harness = await install();
  const { store } = harness.world;
  const labels = { name: "rollout-operator" };
  const containers = [{ name: "operator", image: "grafana/rollout-operator:v0.30.0" }];
  store.create("pods", namespace, {
    metadata: { name: "rollout-operator-0", labels },
    spec: { nodeName: "n", containers },
  });
  store.create("events", namespace, {
    metadata: { name: "e" },
    reason: "RightMissing",
    message: "Sluice lacks the right to patch pods",
  });
  const { code, out } = await check(harness);
  assert.equal(code, 1);
  assert.match(
    lineOf(out, "rollout-operator"),
    /^wrong .+rollout-operator-0.+To mend it: kubectl scale -n db deployment\/rollout-operator --replicas=0$/,
  );
  assert.match(
    lineOf(out, "rights of Sluice"),
    /^wrong .+Sluice lacks the right to patch pods\. To mend it: kubectl apply /,
  );
});

test("a refusal of the dry run by Sluice or by others is an answer", async () => {
  const harness = await install();
  const bySluice = await check(harness, {
    askEviction: failing(429, "no", [{ reason: "SluiceGuard", message: "zones-down" }]),
  });
  assert.match(
    lineOf(bySluice.out, "webhooks answer"),
    /^ok .+the eviction of group-a-0 would be refused now: zones-down$/,
  );
  const byOthers = await check(harness, { askEviction: failing(429, "the budget allows none") });
  assert.match(
    lineOf(byOthers.out, "webhooks answer"),
    /^ok .+would be refused now, not by Sluice: the budget allows none$/,
  );
});

test("a missing right makes its checks unknown and names them, with code 1 only if nothing is left", async () => {
  const harness = await install({ caBundle: Buffer.from("other").toString("base64") });
  harness.interfere = ({ verb, resource }) => {
    if (verb === "get" && resource === "secrets") throw refused(403, 'User "u" cannot get resource "secrets"');
    if (verb === "list" && resource === "validatingwebhookconfigurations")
      throw refused(403, 'User "u" cannot list resource "validatingwebhookconfigurations"');
  };
  const { code, out } = await check(harness);
  assert.equal(code, 0, out);
  assert.match(lineOf(out, "certificate"), /^unknown .+a right is missing: User "u" cannot get resource "secrets"$/);
  for (const name of ["webhooks registered", "webhooks trusted"])
    assert.match(lineOf(out, name), /^unknown .+cannot list resource "validatingwebhookconfigurations"$/);
  const away = new ClusterError({ code: 0, reason: "Timeout", message: "away", verb: "list", resource: "pods" });
  harness.interfere = () => {
    throw away;
  };
  const nothing = await sluice(harness, "check", harness.cluster, { ready: () => Promise.reject(away) });
  assert.equal(nothing.code, 1);
  assert.doesNotMatch(nothing.out, /^(ok|wrong) /m);
});

test("a Secret that cannot be used, and none at all, are named, and messages have no control characters", async () => {
  const harness = await install();
  const { store } = harness.world;
  store.patch("secrets", { namespace, name: secretName }, { data: { cert: "YnJva2Vu" } });
  assert.match(
    lineOf((await check(harness)).out, "certificate"),
    /^wrong .+cert holds no certificate in PEM\. To mend it: .+kubectl -n db patch secret /,
  );
  store.delete("secrets", { namespace, name: secretName });
  store.create("events", namespace, {
    metadata: { name: "e" },
    reason: "RightMissing",
    message: "lacks\u001b[2J\u202e",
  });
  const { out } = await check(harness);
  assert.match(
    lineOf(out, "certificate"),
    /^unknown .+there is no Secret rollout-operator-self-signed-certificate in namespace db/,
  );
  assert.match(out, /lacks\\u001b\[2J\\u202e/);
});
