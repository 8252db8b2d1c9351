/** `CERTIFICATE_MINUTES=10` lets the rotations go on for ten minutes; without it there are two rotations. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { rotateCertificate } from "../../functions/rotate-certificate/function.ts";
import { splitPem } from "../../functions/shared/certificates/secret.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { launchServer, Server } from "../support/server.ts";
import { budgetWebhook, certificateShown, PathServer, path, reviewAnew, serviceWebhook } from "./budget-reviews.ts";
import { createUser } from "./rights.ts";

const minutes = Number(process.env.CERTIFICATE_MINUTES ?? 0);
const webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const budgetsPath = "/apis/rollout-operator.grafana.com/v1/namespaces/default/zoneawarepoddisruptionbudgets";
const crds = join(import.meta.dirname, "../../knative/base/crds");
const secretName = "rollout-operator-self-signed-certificate";
const entry = "zpdb-validation-default.grafana.com";

interface Registered {
  readonly webhooks: {
    readonly clientConfig: { readonly caBundle?: string; readonly service?: { readonly path: string } };
  }[];
}

interface Secret {
  readonly data: Readonly<Record<string, string>>;
}

function textOf(base64 = ""): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

function budget(name: string, spec: object = {}): object {
  return {
    apiVersion: "rollout-operator.grafana.com/v1",
    kind: "ZoneAwarePodDisruptionBudget",
    metadata: { name, namespace: "default" },
    spec: { selector: { matchLabels: { "rollout-group": "ingester" } }, ...spec },
  };
}

/** With the labels by which the function writes the CA into it. */
function registration(options: { name: string; namespace?: string; webhook?: string; port: number }): object {
  const { name, namespace = "default", webhook = entry, port } = options;
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: {
      name,
      labels: { "grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": namespace },
    },
    webhooks: [budgetWebhook(webhook, { url: `https://localhost:${port}` })],
  };
}

function webhookOf(configuration: object): object | undefined {
  return (configuration as { webhooks: object[] }).webhooks[0];
}

/** Exactly the needs of the function: the rights on its one Secret, and those of the whole cluster. */
async function grantNeeds(api: Api, namespace: string, account: string): Promise<void> {
  const group = "rbac.authorization.k8s.io";
  const rules = rotateCertificate.needs.map(({ group: apiGroup, resource, verbs, names, namesOfNamespace }) => {
    const resourceNames = names ?? namesOfNamespace?.map((name) => `${name}-${namespace}`);
    const rule = { apiGroups: [apiGroup], resources: [resource], verbs };
    return resourceNames === undefined ? rule : { ...rule, resourceNames };
  });
  const isOfCluster = ({ apiGroups }: { apiGroups: string[] }) => apiGroups[0] === "admissionregistration.k8s.io";
  const subjects = [{ kind: "ServiceAccount", name: account, namespace }];
  for (const [kind, path, granted] of [
    ["Role", `namespaces/${namespace}/`, rules.filter((rule) => !isOfCluster(rule))],
    ["ClusterRole", "", rules.filter(isOfCluster)],
  ] as const) {
    const type = { apiVersion: `${group}/v1`, metadata: { name: account } };
    const base = `/apis/${group}/v1/${path}${kind.toLowerCase()}`;
    await api.post(`${base}s`, { ...type, kind, rules: granted });
    const roleRef = { apiGroup: group, kind, name: account };
    await api.post(`${base}bindings`, { ...type, kind: `${kind}Binding`, roleRef, subjects });
  }
}

describe("a self-signed certificate on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let proxy: TcpProxy;
  const replicas: Server[] = [];

  const settings = { TLS_PORT: "0", TLS_DNS_NAME: "localhost", TLS_CERT_LIFETIME: "60s" };
  const kubectl = (...args: string[]) =>
    promisify(execFile)(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, ...args]);
  const portOf = ({ log }: Server): number => Number(log.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort);
  /** The fingerprint of the certificate that a new connection gets. */
  const shown = async (replica: Server): Promise<string> => (await certificateShown(portOf(replica))).fingerprint256;
  const bundleOf = async (name: string): Promise<string> => {
    const { webhooks } = await api.get<Registered>(`${webhooksPath}/${name}`);
    return textOf(webhooks[0]?.clientConfig.caBundle);
  };
  const presented = async (): Promise<string> => {
    const { data } = await api.get<Secret>(`/api/v1/namespaces/default/secrets/${secretName}`);
    return new X509Certificate(textOf(data.cert)).fingerprint256;
  };

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-certificate" });
    await kubectl("apply", "-k", crds);
    await kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    proxy = await TcpProxy.start();
    await api.post(webhooksPath, registration({ name: "zpdb-validation-default", port: proxy.port }));
    // At one moment, because they must agree on the first certificate as well.
    const options = { kubeconfig: controlPlane.kubeconfig, namespace: "default", settings };
    replicas.push(...(await Promise.all([Server.start(options), Server.start(options)])));
    for (const replica of replicas) {
      await replica.ready();
      proxy.add(portOf(replica));
    }
    await eventually("the webhook called", 30_000, async () => {
      const answer = await api.send("POST", `${budgetsPath}?dryRun=All`, budget("a", { podNamePartitionRegex: "(" }));
      return (await answer.body.text()).includes("denied the request") ? true : undefined;
    });
  });

  after(async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
    await proxy?.close();
    await api?.close();
    await controlPlane?.stop();
  });

  test("replicas that started at one moment present one certificate", async () => {
    const [one, other] = await Promise.all(replicas.map(shown));
    assert.equal(one, other);
  });

  test("certificates are rotated during reviews, and not one review fails", async () => {
    const startedMs = performance.now();
    const failures: string[] = [];
    const reviews = { allowed: 0, denied: 0, anew: 0 };
    let reviewing = true;
    // An API server learns of a bundle later than Sluice: after three to four seconds here, where less than one is usual.
    let bundle = await bundleOf("zpdb-validation-default");
    const learn = async (): Promise<void> => {
      for (; reviewing; await delay(500)) {
        const received = await bundleOf("zpdb-validation-default");
        void delay(3_000).then(() => {
          bundle = received;
        });
      }
    };
    const askAnew = async (): Promise<void> => {
      for (; reviewing; await delay(20)) {
        const answer = await reviewAnew(proxy.port, bundle, budget("anew")).catch((error: Error) => error.message);
        if (answer.includes('"uid":"anew","allowed":true')) reviews.anew++;
        else failures.push(answer);
      }
    };
    const ask = async (worker: number): Promise<void> => {
      for (let count = 0; reviewing; count++) {
        const isBad = (count + worker) % 2 === 0;
        const object = budget(`review-${worker}`, isBad ? { podNamePartitionRegex: "(" } : {});
        const answer = await api.send("POST", `${budgetsPath}?dryRun=All`, object);
        const text = await answer.body.text();
        if (answer.statusCode !== (isBad ? 400 : 201)) failures.push(text);
        else reviews[isBad ? "denied" : "allowed"]++;
        await delay(20);
      }
    };
    const asking = Promise.all([...[0, 1].map(ask), askAnew(), learn()]);
    let before = await presented();
    let rotations = 0;
    for (; rotations < 2 || performance.now() - startedMs < minutes * 60_000; rotations++) {
      const next = await eventually("the next certificate", 60_000, async () => {
        const now = await presented();
        return now === before ? undefined : now;
      });
      await eventually("both replicas presenting it", 5_000, async () => {
        const seen = await Promise.all(replicas.map(shown));
        return seen.every((one) => one === next) ? true : undefined;
      });
      before = next;
    }
    reviewing = false;
    await asking;
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
    console.log(
      `${rotations} rotations in ${seconds} s, reviews ${JSON.stringify(reviews)}, ${failures.length} failed`,
    );
    assert.deepEqual(failures.slice(0, 3), []);
    assert.ok(reviews.allowed > 100 && reviews.denied > 100 && reviews.anew > 100, JSON.stringify(reviews));
    for (const replica of replicas) {
      const expires = await replica.metric("sluice_certificate_not_after_timestamp_seconds", { source: "secret" });
      assert.ok(expires * 1000 > Date.now(), "the metric gives the end of its validity");
    }
  });

  test("a new configuration trusts our authorities, an overwritten one does again, and a deleted one leaves the metric", async () => {
    const [replica] = replicas;
    const policy = (policy: string) =>
      replica?.metric("kube_validating_webhook_failure_policy", {
        type: "ValidatingWebhook",
        webhook: "late.a.b",
        policy,
      });
    await api.post(webhooksPath, registration({ name: "late", webhook: "late.a.b", port: proxy.port }));
    const trusted = async () => {
      const [late, first] = [await bundleOf("late"), await bundleOf("zpdb-validation-default")].map(splitPem);
      return late !== undefined && late.length > 0 && late.sort().join() === first?.sort().join() ? true : undefined;
    };
    await eventually("the new configuration's bundle", 10_000, trusted);
    const overwritten = { webhooks: [{ ...webhookOf(registration({ name: "late", webhook: "late.a.b", port: 1 })) }] };
    await api.patch(`${webhooksPath}/late`, overwritten);
    await eventually("its bundle again", 10_000, trusted);
    // One rendering of the metrics serves for half a second.
    await eventually("its metric", 1_000, async () => ((await policy("Fail")) === 1 ? true : undefined));
    assert.equal(await policy("Ignore"), 0);
    await api.delete(`${webhooksPath}/late`);
    await eventually("the metric without it", 5_000, async () => ((await policy("Fail")) === 0 ? true : undefined));
  });

  test("the API server posts reviews under the review key, also after a tool has written the plain path back", async () => {
    const namespace = "under-a-key";
    const core = `/api/v1/namespaces/${namespace}`;
    const name = `zpdb-validation-${namespace}`;
    const configuration = `${webhooksPath}/${name}`;
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    const rotator = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace, settings: { TLS_PORT: "0" } });
    replicas.push(rotator);
    await rotator.ready();
    const { data } = await api.get<Secret>(`${core}/secrets/${secretName}`);
    const asked = await PathServer.start({ cert: textOf(data.cert), key: textOf(data.key) });
    try {
      const metadata = { name: "rollout-operator" };
      const spec = { type: "ExternalName", externalName: "localhost" };
      await api.post(`${core}/services`, { apiVersion: "v1", kind: "Service", metadata, spec });
      const webhooks = [serviceWebhook(`${namespace}.a.b`, namespace, asked.port)];
      const registered = registration({ name, namespace, port: 1 }) as { metadata: { labels: object } };
      const labels = { ...registered.metadata.labels, "sluice.dev/review-key": "true" };
      await api.post(webhooksPath, { ...registered, metadata: { name, labels }, webhooks });
      const key = Buffer.from(data["review-key"] ?? "", "base64").toString("hex");
      assert.equal(key.length, 64);
      const budgets = budgetsPath.replace("/default/", `/${namespace}/`);
      const object = { ...budget("keyed"), metadata: { name: "keyed", namespace } };
      const review = async () => {
        const answer = await api.send("POST", `${budgets}?dryRun=All`, object);
        const text = await answer.body.text();
        return answer.statusCode === 201 ? asked.paths.at(-1) : text;
      };
      const isAskedAt = (wanted: string) => async () => ((await review()) === wanted ? true : undefined);
      await eventually("a review at the plain path", 15_000, isAskedAt(path));
      await eventually("a review under the key", 40_000, isAskedAt(`/${key}${path}`));
      await api.patch(configuration, { webhooks });
      await eventually("the path with the key again", 10_000, async () => {
        const { webhooks: now } = await api.get<Registered>(configuration);
        return now[0]?.clientConfig.service?.path === `/${key}${path}` ? true : undefined;
      });
      await eventually("a review under the key again", 10_000, isAskedAt(`/${key}${path}`));
      assert.deepEqual(new Set(asked.paths), new Set([path, `/${key}${path}`]));
    } finally {
      await asked.close();
    }
  });

  test("cron's own process fills the empty Secret with only its declared rights, and the other processes wait for it", async () => {
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "other" } });
    const name = "zpdb-validation-other";
    await api.post(webhooksPath, registration({ name, namespace: "other", webhook: "other.a.b", port: 1 }));
    const waiting = await Server.start({
      kubeconfig: controlPlane.kubeconfig,
      namespace: "other",
      settings: { FUNCTION: "validate-zone-budget", TLS_PORT: "0" },
    });
    replicas.push(waiting);
    const readiness = async () => (await fetch(`${waiting.url}/readyz`)).text();
    await eventually("it waits", 10_000, async () =>
      (await readiness()).includes("there is no certificate to present yet") ? true : undefined,
    );
    const kubeconfig = await createUser(controlPlane, api, "other", "rotator");
    await grantNeeds(api, "other", "rotator");
    const rotator = await Server.start({
      kubeconfig,
      namespace: "other",
      settings: { FUNCTION: rotateCertificate.name },
    });
    replicas.push(rotator);
    const missing = await eventually("what it lacks", 30_000, async () =>
      rotator.log.find(({ msg }) => msg.startsWith("there is no Secret other/")),
    );
    const [, command = ""] = / Type kubectl ([^;]+);/.exec(missing.msg) ?? [];
    await kubectl(...command.split(" "));
    await waiting.ready();
    const { data } = await api.get<Secret>(`/api/v1/namespaces/other/secrets/${secretName}`);
    const leaf = new X509Certificate(textOf(data.cert));
    assert.equal(leaf.subjectAltName, "DNS:rollout-operator.other.svc");
    assert.equal(await shown(waiting), leaf.fingerprint256);
    await eventually("the bundle", 5_000, async () => ((await bundleOf(name)) === textOf(data.ca) ? true : undefined));
    await api.patch(`${webhooksPath}/${name}`, { webhooks: [webhookOf(registration({ name, port: 1 }))] });
    const tick = await fetch(rotator.url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/cron",
        "ce-type": "dev.knative.sources.ping",
      },
      body: "{}",
    });
    assert.equal(tick.status, 204);
    await eventually("the bundle again", 5_000, async () =>
      (await bundleOf(name)) === textOf(data.ca) ? true : undefined,
    );
    const complaints = rotator.log.filter(({ level }) => level === "error" || level === "warn");
    assert.deepEqual(
      complaints.map(({ msg }) => msg),
      [`generate secrets/${secretName}: refused, there is no Secret with a certificate`],
    );
  });

  test("with -webhooks.update-ca-bundle=false the certificate is created, and no caBundle is written", async () => {
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: "kept" } });
    const name = "zpdb-validation-kept";
    await api.post(webhooksPath, registration({ name, namespace: "kept", webhook: "kept.a.b", port: 1 }));
    const server = await Server.start({
      kubeconfig: controlPlane.kubeconfig,
      namespace: "kept",
      args: ["-server.port=0", "-server-tls.enabled", "-server-tls.port=0", "-webhooks.update-ca-bundle=false"],
    });
    replicas.push(server);
    await server.ready();
    const done = { function: rotateCertificate.name, guard: "done" };
    await eventually("nothing left to do", 10_000, async () =>
      (await server.metric("sluice_verdicts_total", done)) > 0 ? true : undefined,
    );
    assert.equal(await bundleOf(name), "");
    assert.deepEqual(
      server.log.filter(({ reason }) => reason === "flag"),
      [],
    );
  });

  test("a Secret without a valid certificate ends the start, with a message that says what to do", async () => {
    const data = { ca: "eA==", cert: "eA==", key: "eA==" };
    const metadata = { name: "broken", namespace: "default" };
    await api.post("/api/v1/namespaces/default/secrets", { apiVersion: "v1", kind: "Secret", metadata, data });
    const launched = launchServer({
      kubeconfig: controlPlane.kubeconfig,
      namespace: "default",
      settings: { ...settings, TLS_SECRET_NAME: "broken" },
    });
    assert.equal((await launched.ended).code, 1);
    const outcome =
      "sluice: Secret default/broken: its data key ca holds no certificate in PEM; empty it, and it is filled again: " +
      `kubectl -n default patch secret broken --type merge --patch '{"data":null}'\n`;
    assert.equal(launched.printed().stderr, outcome);
  });
});
