/**
 * `kubectl scale` of StatefulSets whose pods are told before they leave, on a real control plane, with pods that answer. Sluice
 * runs under the account of rollout-operator's chart, with the Role that the migration adds to it.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { alwaysServed, presets } from "../../triggers/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, type FixtureGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { createAuthority } from "../support/certificates.ts";
import { Ingesters } from "../support/ingester.ts";
import { askedBy, kubeconfigOf } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const migration = await readFile(new URL("../../knative/from-rollout-operator.md", import.meta.url), "utf8");
const statefulSets = "/apis/apps/v1/namespaces/default/statefulsets";
const webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const configuration = "prepare-downscale-default";

/** As rollout-operator's users have it, but by address, because there is no Service here. */
function registration(port: number, ca: string): object {
  const webhook = {
    name: `${configuration}.grafana.com`,
    clientConfig: {
      url: `https://127.0.0.1:${port}/admission/prepare-downscale`,
      caBundle: Buffer.from(ca).toString("base64"),
    },
    rules: [
      {
        apiGroups: ["apps"],
        apiVersions: ["v1"],
        operations: ["UPDATE"],
        resources: ["statefulsets", "statefulsets/scale"],
        scope: "Namespaced",
      },
    ],
    admissionReviewVersions: ["v1"],
    failurePolicy: "Fail",
    sideEffects: "NoneOnDryRun",
  };
  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: configuration };
  return { apiVersion, kind: "MutatingWebhookConfiguration", metadata, webhooks: [webhook] };
}

describe("downscales are prepared on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let folder: string;
  let kubectl: Kubectl;
  let server: Server;
  let ingesters: Ingesters;
  let group: FixtureGroup;
  const following = new AbortController();
  let followed: Promise<void>;

  const scale = (name: string, replicas: number, ...args: string[]): Promise<{ code: number; output: string }> =>
    new Promise((resolve) => {
      const given = ["scale", "statefulset", name, `--replicas=${replicas}`, ...args];
      execFile(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, ...given], (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : 1, output: stdout + stderr }),
      );
    });
  const posts = () => ingesters.calls.filter(({ method }) => method === "POST").map(({ pod }) => pod);

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-prepare" });
    folder = await mkdtemp(join(tmpdir(), "sluice-prepare-"));
    const authority = await createAuthority();
    const { cert, key } = await authority.issue();
    await Promise.all([writeFile(join(folder, "tls.crt"), cert), writeFile(join(folder, "tls.key"), key)]);
    ingesters = await Ingesters.open();
    followed = ingesters.followPods(api, "default", following.signal);
    const labels = { "grafana.com/prepare-downscale": "true", "grafana.com/min-time-between-zones-downscale": "1h" };
    const annotations = {
      "grafana.com/prepare-downscale-http-path": "ingester/prepare-shutdown",
      "grafana.com/prepare-downscale-http-port": String(ingesters.port),
    };
    group = await createGroup(controlPlane, { name: "ingester", zones: 2, pods: 3, labels, annotations });
    await waitForGroupReady(controlPlane, group);
    kubectl = await Kubectl.open(controlPlane);
    await kubectl.run("apply", "-f", "test/fixtures/charts/operator-account.yaml");
    const [, bound = ""] = /```yaml\n([^`]*operator-account[^`]*)```/.exec(migration) ?? [];
    await kubectl.applyKustomization(bound.replaceAll("mimir", "default"));
    for (const file of ["replicatemplates", "zoneawarepoddisruptionbudgets"])
      await kubectl.run("apply", "-f", `knative/base/crds/${file}.yaml`);
    await kubectl.waitForDefinitions();
    // As the migration does, before the first downscale.
    const [command = ""] = /^kubectl .* annotate .*last-downscale=.*$/m.exec(migration) ?? [];
    const [first = ""] = group.statefulSets;
    await kubectl.run("annotate", "statefulset", first, "grafana.com/last-downscale=2021-01-01T00:00:00Z");
    await assert.rejects(kubectl.shell(command.replace("mimir", "default")), /already has a value/);
    const times = await kubectl.run("get", "statefulsets", "-o", "jsonpath={.items[*].metadata.annotations}");
    assert.deepEqual(times.match(/20[0-9TZ:-]+/g), ["2021-01-01T00:00:00Z", "2020-01-01T00:00:00Z"]);
    const served = [...(presets["rollout-operator"] ?? []), ...alwaysServed];
    const settings = {
      FUNCTION: served.map(({ name }) => name).join(","),
      TLS_PORT: "0",
      TLS_CERT_FILE: join(folder, "tls.crt"),
      TLS_KEY_FILE: join(folder, "tls.key"),
      NODE_OPTIONS: ingesters.nodeOptions,
    };
    const kubeconfig = await kubeconfigOf(controlPlane, api, "default", "rollout-operator");
    server = await Server.start({ kubeconfig, namespace: "default", settings });
    await server.ready();
    const port = Number(server.log.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort);
    await api.post(webhooks, registration(port, authority.cert));
    // The API server learns of the webhook a moment later: from then on this review is refused, because it has no port.
    const probe = await createGroup(controlPlane, { name: "probe", zones: 1, pods: 1, labels });
    const [name = ""] = probe.statefulSets;
    await eventually("the webhook called", 30_000, async () => {
      await scale(name, 1);
      const { output } = await scale(name, 0);
      return output.includes("grafana.com/prepare-downscale-http-port") ? true : undefined;
    });
  });

  after(async () => {
    following.abort();
    await followed?.catch(() => undefined);
    await server?.stop();
    await ingesters?.close();
    await api?.close();
    await kubectl?.close();
    await controlPlane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  test("a dry run calls no pod; a scale tells its pods; the next zone waits, and the message says until when", async () => {
    const [one = "", other = ""] = group.statefulSets;
    assert.equal((await scale(one, 2, "--dry-run=server")).code, 0);
    assert.deepEqual(posts(), []);
    // A new ledger waits for ten seconds, and the API server learns of the webhook a moment later.
    await eventually("the ledger old enough", 30_000, async () => {
      const { code, output } = await scale(one, 2);
      return code === 0 || !/ledger-new|is new/.test(output) ? output : undefined;
    });
    assert.deepEqual(posts(), [`${one}-2`]);
    const read = () =>
      api.get<{ spec: { replicas: number }; metadata: { annotations: object } }>(`${statefulSets}/${one}`);
    assert.equal((await read()).spec.replicas, 2);
    const refused = await eventually("the next zone waits for the time alone", 30_000, async () => {
      const { code, output } = await scale(other, 2);
      assert.equal(code, 1, output);
      return output.includes("the time between two zones is 3600 s: try again after") ? output : undefined;
    });
    assert.match(refused, new RegExp(`${one} was made smaller at`));
    assert.deepEqual(posts(), [`${one}-2`]);
  });

  test("with only the chart's rights to ConfigMaps, which are none, a downscale goes on, and one Event names the right", async () => {
    const [one = ""] = group.statefulSets;
    const { forbidden } = await askedBy(controlPlane, 0, "default", "rollout-operator");
    assert.deepEqual(forbidden, []);
    const role = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rollout-operator-sluice";
    const { rules } = await api.get<{ rules: { resources: string[] }[] }>(role);
    const lacking = rules.filter(({ resources }) => !resources.includes("configmaps"));
    assert.equal(lacking.length, rules.length - 1);
    await api.patch(role, { rules: lacking });
    const refused = /ConfigMap rollout-operator-zone-tracker, .*: Sluice lacks the right to get configmaps/;
    await eventually("the downscale goes with a warning", 60_000, async () => {
      const { code, output } = await scale(one, 1);
      assert.ok(code === 0 || !refused.test(output), output);
      if (refused.test(output)) return true;
      await scale(one, 2);
      return undefined;
    });
    await eventually("the next one goes", 30_000, async () => ((await scale(one, 0)).code === 0 ? true : undefined));
    const events = await api.get<{ items: { reason: string; message: string }[] }>("/api/v1/namespaces/default/events");
    const named = events.items.filter(({ reason, message }) => reason === "RightMissing" && refused.test(message));
    assert.equal(named.length, 1);
  });
});
