/** The kubectl plugin as it is shipped: one file on PATH, found by the real kubectl, on a real API server. */
import assert from "node:assert/strict";
import { copyFile, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { Api } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, groupPods, waitForGroupReady } from "../controlplane/fixtures.ts";
import { readImage } from "../support/dockerfile.ts";
import { Plugin, runProgram } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const root = join(import.meta.dirname, "../..");
const namespace = "plugin";
/** With 1000 it measures the figures in the README of the plugin. */
const podsPerZone = Number(process.env.PODS ?? 20);
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const rolePath = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;

describe("kubectl finds the plugin", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let group: FixtureGroup;
  let plugin: Plugin;
  let folder: string;

  const sluice = (line: string, kubeconfig?: string) => plugin.sluice(line, kubeconfig);

  const uidOf = async (pod: string): Promise<string> => {
    const found = (await groupPods(controlPlane, group)).find(({ metadata }) => metadata.name === pod);
    return found?.metadata.uid ?? "";
  };

  /** Writes the ledger as functions do: one reservation of an existing pod, this many seconds old, by the rollout. */
  const reserve = async (pod: string, ageSeconds: number): Promise<void> => {
    const [, statefulSet = "", ordinal = ""] = /^(.+)-(\d+)$/.exec(pod) ?? [];
    const entry = [await uidOf(pod), "advance-zone-rollout", Date.now() - ageSeconds * 1000];
    const annotations = {
      "sluice.dev/group": "ingester",
      "sluice.dev/settled-through": "1",
      "sluice.dev/reservations": JSON.stringify({ [statefulSet]: { [ordinal]: entry } }),
    };
    const metadata = { name: "sluice-ingester", labels: { "app.kubernetes.io/managed-by": "sluice" }, annotations };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata };
    const answer = await api.send("DELETE", `${leasePath}/sluice-ingester`);
    await answer.body.dump();
    await api.post(leasePath, body);
  };

  const reservations = async (): Promise<string | undefined> => {
    const lease = await api.get<{ metadata: { annotations: Record<string, string> } }>(`${leasePath}/sluice-ingester`);
    return lease.metadata.annotations["sluice.dev/reservations"];
  };

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-cli" });
    plugin = await Plugin.build(controlPlane);
    ({ folder } = plugin);
    group = await createGroup(controlPlane, { name: "ingester", namespace, pods: 2 });
    await waitForGroupReady(controlPlane, group);
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
    await plugin?.remove();
  });

  test("the plugin is one file, which kubectl lists and runs, whatever package.json is in a folder above it", async () => {
    assert.deepEqual(await readdir(join(folder, "bin")), ["kubectl-sluice", "kubectl_complete-sluice"]);
    const env = { ...process.env, PATH: plugin.path };
    const listed = await runProgram(controlPlane.kubectl, ["plugin", "list"], env);
    assert.match(listed.stdout, /\/bin\/kubectl-sluice\n/);
    assert.doesNotMatch(listed.stdout + listed.stderr, /warning: .*kubectl-sluice/);
    for (const type of ["module", "commonjs"]) {
      await writeFile(join(folder, "package.json"), JSON.stringify({ type }));
      const { code, stdout, stderr } = await sluice("--help");
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /kubectl sluice release GROUP POD/);
    }
    await rm(join(folder, "package.json"));
  });

  test("the Tab key offers commands and groups, because the real kubectl asks the program beside the plugin", async () => {
    const env = { ...process.env, PATH: plugin.path, KUBECONFIG: controlPlane.kubeconfig, HOME: folder };
    const offered = async (...words: string[]) => {
      const { code, stdout } = await runProgram(controlPlane.kubectl, ["__complete", "sluice", ...words], env);
      return [code, ...stdout.trim().split("\n")];
    };
    assert.deepEqual(await offered("re"), [0, "recover", "release", "restart", "resume", ":4"]);
    assert.deepEqual(await offered("why", "-n", namespace, ""), [0, "ingester", ":4"]);
    assert.deepEqual(await offered("why", "-n", namespace, "--context", "nowhere", ""), [0, ":4"]);
  });

  test("a Node that is too old gets a message, in its own syntax, about the needed version and the form without Node", async () => {
    const bin = join(folder, "old");
    const preload = join(folder, "old.cjs");
    await writeFile(preload, 'Object.defineProperty(process.versions, "node", { value: "18.20.8" });');
    await copyFile(join(folder, "bin/kubectl-sluice"), bin);
    const old = await runProgram(process.execPath, ["--require", preload, bin, "why"], process.env);
    assert.equal(old.code, 2);
    assert.match(
      old.stderr,
      /^kubectl-sluice: it needs Node 22\.\d+ or newer \(not 23\), and \S+ is 18\.20\.8: .*--executable .+ why GROUP\n$/,
    );
    const [, command = "nothing"] = /: (kubectl exec .+) GROUP\n$/.exec(old.stderr) ?? [];
    const readme = await readFile(join(root, "triggers/plugin/README.md"), "utf8");
    assert.ok(readme.replace("-n mimir exec", "exec").includes(command), command);
  });

  test("with Node inside, the plugin answers why within a second, without Node on PATH and with options for another one", async (t) => {
    const executable = await Plugin.build(controlPlane, "--executable");
    t.after(() => executable.remove());
    const bin = join(executable.folder, "bin");
    // The real Node 20 that a user may have does not know this option, and neither does the one inside.
    const another = { NODE_OPTIONS: "--unknown-option" };
    const env = { PATH: bin, KUBECONFIG: controlPlane.kubeconfig, HOME: executable.folder, ...another };
    const tookMs: number[] = [];
    // The machine has other work, so that the quickest of several counts.
    for (let run = 0; run < 5; run++) {
      const beganMs = performance.now();
      const args = ["sluice", "why", "ingester", "-n", namespace];
      const { code, stdout, stderr } = await runProgram(controlPlane.kubectl, args, env);
      tookMs.push(performance.now() - beganMs);
      assert.deepEqual([code, stderr], [0, ""]);
      assert.match(stdout, /^ingester in namespace plugin: 6 of 6 pods ready/);
    }
    t.diagnostic(`kubectl sluice why: ${tookMs.map(Math.round).join(", ")} ms`);
    assert.ok(Math.min(...tookMs) < 1_000, tookMs.join());
    assert.deepEqual((await readdir(bin)).sort(), ["kubectl-sluice", "kubectl_complete-sluice"]);
  });

  test("server and why together stay below the memory of the shipped container", async (t) => {
    const large = await createGroup(controlPlane, {
      name: "large",
      namespace: "large",
      pods: podsPerZone,
      // As many bytes as the other fields of a real pod have.
      podAnnotations: { "example.com/ballast": "x".repeat(5_000) },
    });
    await waitForGroupReady(controlPlane, large, { timeoutMs: 300_000 });
    const { environment, flags } = await readImage();
    const settings = { ...environment, NODE_OPTIONS: flags.join(" ") };
    const server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace: "large", settings });
    t.after(() => server.stop());
    await server.ready();
    const peak = 'process.on("exit",()=>console.error(process.resourceUsage().maxRSS))';
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(peak)}`;
    const env = { ...process.env, KUBECONFIG: controlPlane.kubeconfig, HOME: folder, NODE_OPTIONS };
    const args = [join(folder, "bin/kubectl-sluice"), "why", "large", "-n", "large"];
    const { code, stdout, stderr } = await runProgram(process.execPath, args, env);
    assert.equal(code, 0, stderr);
    const count = 3 * podsPerZone;
    assert.match(stdout, new RegExp(`^large in namespace large: ${count} of ${count} pods ready`));
    const [ofServer, ofPlugin] = [await server.peakMebibytes(), Number(stderr) / 1024];
    t.diagnostic(`${count} pods: server ${Math.round(ofServer)} MiB, why ${Math.round(ofPlugin)} MiB, at most`);
    assert.ok(ofServer > 0 && ofPlugin > 0 && ofServer + ofPlugin < 512);
  });

  test("why shows the state of a group, with budgets if their CRD is installed", async () => {
    const { code, stdout, stderr } = await sluice(`why ingester -n ${namespace}`);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^ingester in namespace plugin: 6 of 6 pods ready, 0 outdated, 0 reserved\n/);
    assert.match(stdout, /^There is no ledger sluice-ingester yet/m);
    assert.match(stdout, /^ingester-zone-b +2\/2 +0 +1 +-$/m);
    assert.ok(!stdout.includes("BUDGET"), stdout);
    assert.ok(!stdout.includes("\u001b"), "it is no terminal");
    const env = { ...process.env, KUBECONFIG: controlPlane.kubeconfig, HOME: folder };
    const apply = async (...args: string[]) => {
      const applied = await runProgram(controlPlane.kubectl, args, env);
      assert.equal(applied.code, 0, applied.stderr);
    };
    await apply("apply", "-k", join(root, "knative/base/crds"));
    await apply("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    const spec = { selector: { matchLabels: { "rollout-group": "ingester" } }, maxUnavailable: 2 };
    const body = { apiVersion: "rollout-operator.grafana.com/v1", kind: "ZoneAwarePodDisruptionBudget", spec };
    const path = `/apis/rollout-operator.grafana.com/v1/namespaces/${namespace}/zoneawarepoddisruptionbudgets`;
    await api.post(path, { ...body, metadata: { name: "guarded" } });
    const governed = await sluice(`why ingester -n ${namespace}`);
    assert.match(governed.stdout, /^guarded +2 down in one zone at a time$/m);
  });

  test("why -o json is one object, and writes nothing to the API server", async () => {
    await reserve("ingester-zone-a-1", 60);
    const from = await auditPosition(controlPlane.auditLog);
    const { code, stdout, stderr } = await sluice(`why ingester -n ${namespace} -o json`);
    assert.deepEqual([code, stderr], [0, ""]);
    const { zones, reservations: reserved, ledger } = JSON.parse(stdout);
    assert.deepEqual(
      zones.map(({ name, ready }: { name: string; ready: number }) => [name, ready]),
      group.statefulSets.map((name) => [name, 2]),
    );
    assert.deepEqual([ledger.exists, reserved[0].pod, reserved[0].standing], [true, "ingester-zone-a-1", "open"]);
    const verbs = new Set<string>();
    for await (const { userAgent, verb } of readAudit(controlPlane.auditLog, { from }, () => {})) {
      if (userAgent.startsWith("kubectl-sluice/")) verbs.add(verb);
    }
    assert.deepEqual([...verbs].sort(), ["get", "list"]);
  });

  test("--context chooses a context of the kubeconfig, and with it the namespace", async () => {
    const { url, token, caFile } = controlPlane;
    const cluster = (name: string, server: string) => ({ name, cluster: { server, "certificate-authority": caFile } });
    const contexts = [
      { name: "away", context: { cluster: "away", user: "admin" } },
      { name: "here", context: { cluster: "here", user: "admin", namespace } },
    ];
    const clusters = [cluster("away", "https://127.0.0.1:1"), cluster("here", url)];
    const kubeconfig = { clusters, contexts, users: [{ name: "admin", user: { token } }], "current-context": "away" };
    const path = join(folder, "contexts.kubeconfig");
    await writeFile(path, JSON.stringify(kubeconfig));
    const { code, stdout, stderr } = await sluice(`why --context here --kubeconfig ${path}`);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^ingester +3 +6\/6 /m);
    assert.equal((await sluice(`why --kubeconfig ${path}`)).code, 1);
  });

  test("each mistake is one line: an unknown group with code 1, a wrong command line or kubeconfig with 2", async () => {
    const { url } = controlPlane;
    for (const [line, code, expected] of [
      [`why nothing -n ${namespace}`, 1, /^kubectl-sluice: there is no group "nothing" .+: there are "ingester"\n$/],
      [
        `why ingester -n ${namespace} -o json -o text`,
        2,
        /^kubectl-sluice: --output is given several times; see .+\n$/,
      ],
      ["why --force", 2, /^kubectl-sluice: Unknown option '--force'; see kubectl sluice --help\n$/],
      ["why --context other", 2, /^kubectl-sluice: .+ has no context "other"; it has \S+\n$/],
      [`why --kubeconfig ${join(folder, "missing")}`, 2, /^kubectl-sluice: .+ENOENT.+missing'\n$/],
    ] as const) {
      const output = await sluice(line);
      assert.deepEqual([output.code, output.stdout], [code, ""], line);
      assert.match(output.stderr, expected);
    }
    const away = join(folder, "away.kubeconfig");
    const user = { name: "unproven", user: { token: "nothing" } };
    const cluster = (server: string) => ({ name: "c", cluster: { server, "insecure-skip-tls-verify": true } });
    const context = { name: "x", context: { cluster: "c", user: "unproven" } };
    const kubeconfig = (server: string) =>
      JSON.stringify({ clusters: [cluster(server)], users: [user], contexts: [context], "current-context": "x" });
    await writeFile(away, kubeconfig("https://127.0.0.1:1"));
    const unanswered = await sluice("why", away);
    assert.equal(unanswered.code, 1);
    assert.match(
      unanswered.stderr,
      /^kubectl-sluice: the API server does not answer: .+ECONNREFUSED 127\.0\.0\.1:1\n$/,
    );
    await writeFile(away, kubeconfig(url));
    const refused = await sluice("why", away);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^kubectl-sluice: the API server does not accept the kubeconfig's credentials: .+\n$/);
  });

  test("a missing right is named, and nothing else is reported", async () => {
    const rules = [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list"] }];
    const role = { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata: { name: "viewer" }, rules };
    await api.post(`${rolePath}/roles`, role);
    const subject = { kind: "User", name: "viewer", apiGroup: "rbac.authorization.k8s.io" };
    const roleRef = { kind: "Role", name: "viewer", apiGroup: "rbac.authorization.k8s.io" };
    const binding = { ...role, kind: "RoleBinding", rules: undefined, subjects: [subject], roleRef };
    await api.post(`${rolePath}/rolebindings`, binding);
    const kubeconfig = join(folder, "viewer.kubeconfig");
    await writeFile(kubeconfig, JSON.stringify(viewerOf(controlPlane)));
    for (const line of [`why ingester -n ${namespace}`, `release ingester ingester-zone-a-1 -n ${namespace}`]) {
      const { code, stdout, stderr } = await sluice(line, kubeconfig);
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, /^kubectl-sluice: a right is missing: .+User "viewer" cannot get resource "leases".+\n$/);
    }
  });

  test("release refuses a reservation on which a function may still act, and removes one on which none can", async () => {
    const line = `release ingester ingester-zone-a-1 -n ${namespace}`;
    await reserve("ingester-zone-a-1", 60);
    const newer = await reservations();
    const refused = await sluice(line);
    assert.deepEqual([refused.code, refused.stdout], [1, ""]);
    assert.match(
      refused.stderr,
      /^kubectl-sluice: ingester-zone-a-1 is not released: .+ it can be released in \d+ s, at .+\n$/,
    );
    assert.equal(await reservations(), newer);

    await reserve("ingester-zone-a-1", 151);
    const abandoned = await reservations();
    const pretended = await sluice(`${line} --dry-run`);
    assert.match(pretended.stdout, /^ingester-zone-a-1: would be released: .+\n$/);
    assert.equal(await reservations(), abandoned);
    const uid = await uidOf("ingester-zone-a-1");
    const { code, stdout, stderr } = await sluice(line);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(
      stdout,
      /^ingester-zone-a-1: released: .+ no function can act on it any more, and its pod is still there\n$/,
    );
    assert.equal(await reservations(), "{}");
    assert.equal(await uidOf("ingester-zone-a-1"), uid);
    assert.equal((await sluice(line)).code, 1);
  });

  test("release --wait waits for that moment, and removes the reservation then", async () => {
    await reserve("ingester-zone-b-0", 145);
    const { code, stdout, stderr } = await sluice(`release ingester ingester-zone-b-0 -n ${namespace} --wait`);
    assert.deepEqual([code, await reservations()], [0, "{}"]);
    assert.match(stderr, /^kubectl-sluice: waiting: ingester-zone-b-0: .+\n$/);
    assert.match(stdout, /^ingester-zone-b-0: released: .+\n$/);
  });

  test("a foreign Lease with the label of a ledger keeps why from no group, and no name of a group is a command", async () => {
    const other = await createGroup(controlPlane, { name: "store", namespace, pods: 1 });
    await waitForGroupReady(controlPlane, other);
    const addLease = (name: string, group: string, more: Record<string, string> = {}) => {
      const labels = { "app.kubernetes.io/managed-by": "sluice" };
      const metadata = { name, labels, annotations: { "sluice.dev/group": group, ...more } };
      return api.post(leasePath, { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata });
    };
    await addLease("foreign", "elsewhere", { "sluice.dev/reservations": "x".repeat(200_000) });
    const { code, stdout, stderr } = await sluice(`why -n ${namespace}`);
    assert.equal(code, 0);
    assert.match(stdout, /^ingester +3 +6\/6 /m);
    assert.match(stdout, /^store +3 +3\/3 /m);
    assert.equal(
      stderr,
      "kubectl-sluice: Lease foreign has the label app.kubernetes.io/managed-by=sluice, is no ledger, and is left out\n",
    );
    const hostile = ["$(touch ran)", "a b", "\u001b[31mred\u200b", "owner:Kind.example.com/a b", "budget:/x", "a\nb"];
    for (const group of hostile) await addLease(ledgerName(group), group, { "sluice.dev/verdicts": "no JSON" });
    const all = await sluice(`why -n ${namespace}`);
    assert.equal(all.code, 0, all.stderr);
    for (const line of [/^ingester +3 +6\/6 /m, /^store +3 +3\/3 /m, /^\\u001b\[31mred\\u200b +0 +0\/0 /m])
      assert.match(all.stdout, line);
    const env = { ...process.env, PATH: plugin.path, KUBECONFIG: controlPlane.kubeconfig, HOME: folder };
    const words = ["__complete", "sluice", "why", "-n", namespace, ""];
    const offered = await runProgram(controlPlane.kubectl, words, env);
    assert.deepEqual(offered.stdout.trim().split("\n"), ["budget:/x", "ingester", "store", ":4"]);
  });

  test("restart writes the phase on a pod and on the StatefulSets of a group, once, and refuses what it cannot restart", async () => {
    const search = await createGroup(controlPlane, { name: "search", namespace, pods: 1, zones: 1 });
    await waitForGroupReady(controlPlane, search);
    const [set = ""] = search.statefulSets;
    const setPath = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${set}`;
    const podPath = `/api/v1/namespaces/${namespace}/pods/${set}-0`;
    const phaseAt = async (path: string) => {
      const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(path);
      return metadata.annotations?.["elasticsearch.k8s.elastic.co/restart-phase"];
    };
    const refused = await sluice(`restart search -n ${namespace}`);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^kubectl-sluice: no StatefulSet of search names a process manager, .+\n$/);
    const annotations = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
    await api.patch(setPath, { metadata: { annotations } });
    const one = await sluice(`restart search ${set}-0 -n ${namespace}`);
    assert.deepEqual([one.code, one.stderr, await phaseAt(podPath)], [0, "", "schedule"]);
    assert.match(
      one.stdout,
      /: schedule is written on pod \S+\. kubectl sluice why search -n plugin shows how it goes on\n$/,
    );
    assert.equal((await sluice(`restart search ${set}-0 -n ${namespace}`)).code, 1);
    assert.equal((await sluice(`restart search -n ${namespace} --dry-run`)).code, 0);
    assert.equal(await phaseAt(setPath), undefined);
    const all = await sluice(`restart search -n ${namespace}`);
    assert.deepEqual([all.code, await phaseAt(setPath)], [0, "schedule-rolling"]);
    const cancelled = await sluice(`restart search -n ${namespace} --cancel`);
    assert.deepEqual([cancelled.code, await phaseAt(setPath), await phaseAt(podPath)], [0, undefined, "cancel"]);
    assert.equal((await sluice(`restart -n ${namespace}`)).code, 2);
  });
});

/** A kubeconfig that impersonates a user who may read pods and nothing else. */
function viewerOf({ url, token, caFile }: ControlPlane): object {
  const cluster = { server: url, "certificate-authority": caFile };
  return {
    clusters: [{ name: "c", cluster }],
    users: [{ name: "viewer", user: { token, as: "viewer" } }],
    contexts: [{ name: "x", context: { cluster: "c", user: "viewer" } }],
    "current-context": "x",
  };
}
