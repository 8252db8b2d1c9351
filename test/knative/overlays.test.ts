/** The overlays, as kubectl builds them, against the schemas and the admission of a real API server. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { type Built, Kubectl, textOf } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { admits, type Caller, isPolicy } from "./network-policy.ts";
import { ensureSchemas } from "./schemas.ts";

interface Replicas extends Built {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: { readonly containers: readonly { readonly ports: readonly { readonly name: string }[] }[] };
    };
  };
}

interface Source extends Built {
  readonly spec: {
    readonly ceOverrides?: { readonly extensions: { readonly selectedby: string } };
    readonly resources: readonly [Selected, ...Selected[]];
  };
}

interface Selected {
  readonly kind: string;
  readonly selector?: { readonly matchExpressions: readonly { readonly key: string }[] };
}

const schemas = await ensureSchemas().catch((error: Error) => error);
if (schemas instanceof Error && process.env.CI === "true") throw schemas;

/** What the API server knows without a CRD. */
const isBuiltIn = ({ apiVersion }: Built) => !/knative\.dev|monitoring\.coreos\.com/.test(apiVersion);

const isFence = ({ kind, metadata }: Built) =>
  /^ValidatingAdmissionPolicy/.test(kind) && /^sluice-(fence|guard)-/.test(metadata.name);

suite("overlays on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  const isAccepted = async (objects: readonly Built[]) => {
    const output = await kubectl.apply(objects, "--dry-run=server");
    assert.equal(output.length, objects.length, output.join("\n"));
    for (const line of output) assert.match(line, /serverside-applied \(server dry run\)$/);
  };

  test("every built-in object of every overlay passes a strict dry run, whatever CRDs there are", async () => {
    for (const overlay of ["standalone", "direct", "broker"]) {
      const objects = (await kubectl.build(`overlays/${overlay}`)).filter(isBuiltIn);
      assert.ok(objects.length > 10);
      await isAccepted(objects);
    }
  });

  test("a misspelled field does not pass", async () => {
    const [object] = (await kubectl.build("overlays/standalone")).filter(({ kind }) => kind === "Deployment");
    assert.ok(object !== undefined);
    await assert.rejects(kubectl.apply([{ ...object, spek: {} } as Built], "--dry-run=server"), /spek/);
  });

  const skip = schemas instanceof Error ? `no CRDs: ${schemas.message}` : false;
  test("every object passes one against the CRDs of Knative and prometheus-operator", { skip }, async () => {
    assert.ok(!(schemas instanceof Error));
    await kubectl.run("create", ...schemas.flatMap((path) => ["-f", path]));
    await kubectl.waitForDefinitions();
    for (const folder of ["overlays/standalone", "overlays/direct", "overlays/broker", "base/monitoring"]) {
      await isAccepted(await kubectl.build(folder));
    }
    const [service] = (await kubectl.build("overlays/direct")).filter((one) => /serving/.test(one.apiVersion));
    assert.ok(service !== undefined);
    await assert.rejects(kubectl.apply([{ ...service, spek: {} } as Built], "--dry-run=server"), /spek/);
  });

  test("with a broker one source reports each type of object with a label, and every type that a Trigger takes has one", async () => {
    const objects = await kubectl.build("overlays/broker");
    const of = (kind: string) => objects.filter((one) => one.kind === kind);
    const resourcesOf = (sources: readonly Built[]) => sources.flatMap((one) => (one as Source).spec.resources);
    const left = resourcesOf(of("ApiServerSource"));
    const watched = left.map((one) => JSON.stringify(one));
    assert.deepEqual(watched.toSorted(), [...new Set(watched)].toSorted());
    const filter = /"exact":\{"kind":"(\w+)"\}\}(?:,\{"exact":\{"selectedby":"([^"]+)")?/g;
    const taken = [...JSON.stringify(of("Trigger")).matchAll(filter)].map(([, kind, label]) => `${kind} ${label}`);
    const readme = await readFile(join(import.meta.dirname, "../../knative/README.md"), "utf8");
    const [, count = ""] = /With\s+a\s+Broker\s+(\w+)\s+are\s+enough/.exec(readme) ?? [];
    assert.equal(["six", "seven", "eight", "nine"].indexOf(count) + 6, left.length, "the README counts them");
    // Users of other operators have sources beside these, which watch what the operators bring.
    const operators = await Promise.all(
      ["rabbitmq", "foundationdb"].map((operator) => kubectl.build(`base/sources-${operator}`)),
    );
    const besides = operators.flat().filter(({ kind }) => kind === "ApiServerSource");
    // By the attribute a Trigger takes what was selected for its function alone.
    const configured = [...of("ApiServerSource"), ...besides].map((source) => {
      const { ceOverrides, resources } = (source as Source).spec;
      const [{ kind, selector }] = resources;
      assert.equal(ceOverrides?.extensions.selectedby, selector?.matchExpressions[0]?.key, source.metadata.name);
      return `${kind} ${selector?.matchExpressions[0]?.key}`;
    });
    assert.deepEqual(new Set(configured), new Set(taken));
    // The sources that are left tell each function all that its own would.
    const all = (await kubectl.build("base/sources")).filter(({ kind }) => kind === "ApiServerSource");
    assert.deepEqual(new Set(resourcesOf(all).map((one) => JSON.stringify(one))), new Set(watched));
  });

  test("in another namespace, everything is named for it, and nothing is left of the one before", async () => {
    for (const overlay of ["standalone", "direct", "broker"]) {
      const objects = await kubectl.buildIn("my-mimir", overlay);
      const crds = objects.filter(({ kind }) => kind === "CustomResourceDefinition").length;
      const named = objects
        .filter(({ kind }) => /Webhook|ClusterRoleBinding|AdmissionPolicy/.test(kind))
        .map(({ metadata }) => metadata.name);
      for (const name of named) assert.match(name, /[-:.]my-mimir$/);
      assert.ok(crds === 2 && named.length >= 11);
      const text = textOf(objects.filter(({ kind }) => kind !== "CustomResourceDefinition"));
      assert.doesNotMatch(text, /\bdefault\b/);
      // kustomize takes policies for namespaced, and the API server drops their namespace.
      const clusterWide = /^(ClusterRole|ClusterRoleBinding|CustomResourceDefinition|.*WebhookConfiguration)$/;
      for (const { kind, metadata } of objects) {
        assert.equal(metadata.namespace, clusterWide.test(kind) ? undefined : "my-mimir", `${kind} ${metadata.name}`);
      }
    }
  });

  /** Which of these callers get to a port of the replicas that answer reviews. */
  const reaching = (objects: readonly Built[], port: string, callers: readonly Caller[]) => {
    const deployments = objects.filter((one): one is Replicas => one.kind === "Deployment");
    const [pods] = deployments.map(({ spec }) => spec.template);
    assert.ok(pods !== undefined && deployments.length === 1);
    assert.ok(pods.spec.containers.some(({ ports }) => ports.some(({ name }) => name === port)));
    const policies = objects.filter(isPolicy);
    return callers.filter((caller) => admits(policies, pods.metadata.labels, port, caller));
  };
  const [tenant, prometheus, broker] = ["tenant", "monitoring", "knative-eventing"].map((namespace) => ({ namespace }));
  const [apiServer, foreign] = ["192.0.2.10", "198.51.100.1"].map((address) => ({ address }));
  const callers = [{ namespace: "my-mimir" }, tenant, prometheus, broker, apiServer, foreign].filter(
    (one) => one !== undefined,
  );

  test("in every overlay reviews are reached from anywhere, and the plain port from its namespace, Knative and Prometheus alone", async () => {
    for (const overlay of ["standalone", "direct", "broker"]) {
      const objects = await kubectl.buildIn("my-mimir", overlay);
      assert.deepEqual(reaching(objects, "https", callers), callers, overlay);
      assert.deepEqual(
        reaching(objects, "http-metrics", callers),
        [{ namespace: "my-mimir" }, prometheus, broker],
        overlay,
      );
    }
  });

  test("the README's patches let another namespace read metrics, and API servers alone ask for reviews, or take the policy away", async () => {
    const [adjusted, without] = await kubectl.patchesIn("README.md");
    const narrowed = await kubectl.buildIn("my-mimir", "standalone", adjusted);
    await kubectl.apply(
      narrowed.filter(isPolicy).map((one) => ({ ...one, metadata: { name: "adjusted" } }) as Built),
      "--dry-run=server",
    );
    assert.deepEqual(reaching(narrowed, "https", callers), [apiServer]);
    const observing = { namespace: "observability" };
    assert.deepEqual(reaching(narrowed, "http-metrics", [observing, ...callers]).slice(0, 2), [
      observing,
      { namespace: "my-mimir" },
    ]);
    const open = await kubectl.buildIn("my-mimir", "standalone", without);
    assert.deepEqual(open.filter(isPolicy), []);
  });

  test("the README's patch has the replicas ask for a certificate, of the authority in the ConfigMap that it makes", async () => {
    const [, , patches] = await kubectl.patchesIn("README.md");
    for (const overlay of ["standalone", "direct"]) {
      const deployments = (await kubectl.buildIn("my-mimir", overlay, patches)).filter(
        ({ kind }) => kind === "Deployment",
      );
      assert.equal(deployments.length, 1);
      const text = textOf(deployments);
      const [, file = ""] = /name: TLS_CLIENT_CA_FILE\n\s+value: (\S+)/.exec(text) ?? [];
      const [, mounted] = /mountPath: (\S+)/.exec(text) ?? [];
      assert.equal(file, `${mounted}/clients.crt`);
      assert.match(text, /configMap:\n\s+name: sluice-clients/);
      await kubectl.apply(
        deployments.map((one) => ({ ...one, metadata: { name: "asking" } }) as Built),
        "--dry-run=server",
      );
    }
  });

  test("the README's patches list more keys of labels, and more namespaces whose volumes are kept", async () => {
    const [, , , patches] = await kubectl.patchesIn("README.md");
    for (const overlay of ["standalone", "direct", "broker"]) {
      const policies = (await kubectl.buildIn("my-mimir", overlay, patches)).filter(isFence);
      const text = JSON.stringify(policies);
      assert.match(
        text,
        /"expression":"\['skipPreStopChecks', 'sluice\.dev\/\*', 'example\.com\/\*'\]","name":"skipLabelKeys"/,
      );
      assert.match(text, /"expression":"\['my-mimir', 'loki'\]","name":"namespaces"/);
      const selected = text.match(
        /"namespaceSelector":\{"matchExpressions":\[\{[^}]*"values":\["my-mimir","loki"\]\}\]\}/g,
      );
      assert.equal(selected?.length, 5, "objects and leases; claims, owners and ledgers");
      await isAccepted(policies);
    }
  });

  test("before Kubernetes 1.30 no policy is applied, and no account may patch webhook configurations or PersistentVolumes", async () => {
    const [, , , , certificates] = await kubectl.patchesIn("README.md");
    const workloads = { standalone: ["sluice"], direct: ["rotate-certificate"], broker: ["rotate-certificate"] };
    const writing =
      /"resources":\["(persistentvolumes|\w+webhookconfigurations)"\],"verbs":\[[^\]]*"(patch|update|create)"/;
    for (const [overlay, named] of Object.entries(workloads)) {
      assert.match(JSON.stringify(await kubectl.buildIn("my-mimir", overlay)), writing);
      const objects = await kubectl.buildIn("my-mimir", overlay, certificates, ["without-policies"]);
      assert.deepEqual(objects.filter(isFence), []);
      assert.doesNotMatch(JSON.stringify(objects), writing);
      assert.match(JSON.stringify(objects), /"resources":\["persistentvolumes"\],"verbs":\["get"\]/);
      const leaving = objects.filter((one) => /"UPDATE_CA_BUNDLE","value":"false"/.test(JSON.stringify(one)));
      assert.deepEqual(
        leaving.map(({ metadata }) => metadata.name),
        named,
      );
      const text = textOf(objects);
      const [, mounted] = /mountPath: (\S+)/.exec(text) ?? [];
      assert.match(text, new RegExp(`name: TLS_CERT_FILE\\n\\s+value: ${mounted}/tls.crt`));
      assert.equal(text.match(/inject-ca-from: mimir\/sluice/g)?.length, 4);
      await isAccepted((await kubectl.buildIn("default", overlay, [], ["without-policies"])).filter(isBuiltIn));
    }
  });

  test("no overlay gives the right to exec, and the component gives it to the one account that labels pods, with the file", async () => {
    const rulesOf = (objects: readonly Built[]) =>
      objects
        .filter((one) => /pods\/exec/.test(JSON.stringify(one)))
        .map(({ kind, metadata: { name } }) => `${kind} ${name}`);
    const reading = (objects: readonly Built[]) =>
      objects.filter((one) => /SKIP_LABEL_MARKER/.test(JSON.stringify(one))).map(({ metadata: { name } }) => name);
    const accounts = { standalone: "sluice", direct: "mark-skip-label", broker: "mark-skip-label" };
    for (const [overlay, account] of Object.entries(accounts)) {
      assert.deepEqual(rulesOf(await kubectl.buildIn("mimir", overlay)), [], overlay);
      const objects = await kubectl.buildIn("mimir", overlay, [], ["exec"]);
      assert.deepEqual([rulesOf(objects), reading(objects)], [[`Role ${account}`], [account]], overlay);
    }
  });

  test("a Secret that is there keeps its certificate and its type, however the empty one of an overlay is applied over it", async () => {
    const name = "rollout-operator-self-signed-certificate";
    const read = async (namespace: string) => {
      const text = await kubectl.run("get", "secret", name, "-n", namespace, "-o", "json");
      const { type, data } = JSON.parse(text) as { type: string; data?: object };
      return { type, data };
    };
    for (const [overlay, type] of Object.entries({
      standalone: "Opaque",
      direct: "example.com/own",
      broker: "Opaque",
    })) {
      const namespace = `filled-${overlay}`;
      const secrets = (await kubectl.buildIn(namespace, overlay)).filter(({ kind }) => kind === "Secret");
      assert.deepEqual(
        secrets.map(({ metadata }) => [metadata.name, metadata.namespace]),
        [[name, namespace]],
      );
      await kubectl.run("create", "namespace", namespace);
      await kubectl.run(
        "create",
        "secret",
        "generic",
        name,
        "-n",
        namespace,
        `--type=${type}`,
        "--from-literal=ca=PEM",
      );
      const before = await read(namespace);
      assert.deepEqual(before, { type, data: { ca: Buffer.from("PEM").toString("base64") } });
      const file = await kubectl.file("secret.yaml", textOf(secrets));
      // The second time kubectl knows what was applied before, and would take away what is not there any more.
      for (const how of ["--server-side=false", "--server-side=false", "--server-side"]) {
        await kubectl.run("apply", how, "-f", file);
        assert.deepEqual(await read(namespace), before, `${overlay}, ${how}`);
      }
    }
  });

  test("while no replica answers, evictions are refused, but for those of Sluice's own pods", async () => {
    await kubectl.run("create", "namespace", "evictions");
    await kubectl.apply(await kubectl.buildIn("evictions", "standalone"));
    // The Deployment would go on making pods; those of this test are its own.
    await kubectl.run("delete", "-n", "evictions", "deployment,poddisruptionbudget", "sluice");
    const evict = async (name: string): Promise<string> => {
      const pod = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "evictions" },
        spec: { containers: [{ name: "c", image: "c" }] },
      };
      await kubectl.apply([pod as Built]);
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "evictions" } };
      const path = await kubectl.file("eviction.json", JSON.stringify(eviction));
      const url = `/api/v1/namespaces/evictions/pods/${name}/eviction`;
      return kubectl.run("create", "--raw", url, "-f", path).then(
        () => "evicted",
        (error: { stderr: string }) => error.stderr,
      );
    };
    // The API server learns of a webhook a moment after it has stored it.
    for (let tries = 0; (await evict(`probe-${tries}`)) === "evicted"; tries++) assert.ok(tries < 50);
    assert.match(await evict("ingester-zone-a-0"), /failed calling webhook "pod-eviction\.evictions\.grafana\.com"/);
    assert.match(await evict("sluice-zone-a-24567890"), /failed calling webhook/);
    // What a StatefulSet `sluice-a`, and one `sluice-admission-a`, may call a pod.
    assert.match(await evict("sluice-a-22224"), /failed calling webhook/);
    assert.match(await evict("sluice-admission-a-22224"), /failed calling webhook/);
    assert.equal(await evict("sluice-7c9f6d5b8-x7k2p"), "evicted");
    assert.equal(await evict("sluice-admission-7c9f6d5b8-x7k2p"), "evicted");
  });
});
