/** Downscales about which the real API server asks Sluice, by kubectl and by the tools that write manifests. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { guardDownscale } from "../../functions/guard-downscale/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createAuthority } from "../support/certificates.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";

const webhooksPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const protection = { "grafana.com/no-downscale": "true" };
const follows = { "grafana.com/rollout-downscale-leader": "leader" };
const prepared = { "grafana.com/prepare-downscale": "true" };

interface Output {
  readonly code: number;
  readonly stderr: string;
}

/** As it ships, but by address, because there is no Service here. */
function configuration(port: number, ca: string): object {
  const { rule, webhook, path, sideEffects, failurePolicy, matchConditions } = guardDownscale.registration;
  const clientConfig = { url: `https://127.0.0.1:${port}${path}`, caBundle: Buffer.from(ca).toString("base64") };
  const rules = [{ ...rule, scope: "Namespaced" }];
  const entry = {
    name: `${webhook}.default.grafana.com`,
    clientConfig,
    rules,
    sideEffects,
    failurePolicy,
    matchConditions,
  };
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: `${webhook}-default` },
    webhooks: [{ ...entry, admissionReviewVersions: ["v1"] }],
  };
}

interface Manifest {
  readonly kind?: "StatefulSet" | "Deployment";
  readonly replicas?: number;
  readonly labels?: object;
  readonly annotations?: object;
  readonly image?: string;
}

function manifest(name: string, { kind = "StatefulSet", replicas, image = "i", ...keys }: Manifest): object {
  const pod = { containers: [{ name: "c", image }] };
  const template = { metadata: { labels: { app: name } }, spec: pod };
  const service = kind === "StatefulSet" ? { serviceName: name } : {};
  const spec = { ...service, selector: { matchLabels: { app: name } }, template };
  const metadata = { name, namespace: "default", ...keys };
  return { apiVersion: "apps/v1", kind, metadata, spec: replicas === undefined ? spec : { ...spec, replicas } };
}

describe("downscales on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let folder: string;
  let server: Server;

  /** kubectl reads `object`, if there is one, from its standard input. */
  const kubectl = (args: readonly string[], object?: object): Promise<Output> =>
    new Promise((resolve) => {
      const given = ["--kubeconfig", controlPlane.kubeconfig, ...args, ...(object === undefined ? [] : ["-f", "-"])];
      const child = execFile(controlPlane.kubectl, given, (error, _stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stderr }),
      );
      child.stdin?.end(object === undefined ? "" : JSON.stringify(object));
    });
  const done = async (...given: Parameters<typeof kubectl>): Promise<void> => {
    const { code, stderr } = await kubectl(...given);
    assert.equal(code, 0, stderr);
  };
  const refused = async (message: string | RegExp, ...given: Parameters<typeof kubectl>): Promise<void> => {
    const { code, stderr } = await kubectl(...given);
    assert.equal(code, 1, stderr);
    assert.ok(typeof message === "string" ? stderr.includes(message) : message.test(stderr), stderr);
  };
  const replicasOf = async (name: string, plural = "statefulsets"): Promise<number | undefined> => {
    const path = `/apis/apps/v1/namespaces/default/${plural}/${name}`;
    return (await api.get<{ spec: { replicas?: number } }>(path)).spec.replicas;
  };
  /** Number of reviews about each of these objects. */
  const reviewsOf = (...names: readonly string[]): readonly number[] =>
    names.map((name) => server.log.filter(({ uid, object }) => uid !== undefined && object === name).length);

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-downscale" });
    folder = await mkdtemp(join(tmpdir(), "sluice-downscale-"));
    const authority = await createAuthority();
    const { cert, key } = await authority.issue();
    const files = { TLS_CERT_FILE: join(folder, "tls.crt"), TLS_KEY_FILE: join(folder, "tls.key") };
    await Promise.all([writeFile(files.TLS_CERT_FILE, cert), writeFile(files.TLS_KEY_FILE, key)]);
    const settings = { FUNCTION: "guard-downscale", TLS_PORT: "0", LOG_LEVEL: "debug", ...files };
    server = await Server.start({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings });
    await server.ready();
    await api.post(webhooksPath, configuration(server.tlsPort, authority.cert));
    await done(["create"], manifest("probe", { labels: protection, replicas: 2 }));
    // The API server learns of the webhook a moment later.
    await eventually("the webhook called", 30_000, async () => {
      const { stderr } = await kubectl(["scale", "sts/probe", "--replicas=1", "--dry-run=server"]);
      return stderr.includes("no-downscale.default.grafana.com") ? true : undefined;
    });
  });

  after(async () => {
    await server?.stop();
    await api?.close();
    await controlPlane?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  for (const [kind, plural] of [
    ["StatefulSet", "statefulsets"],
    ["Deployment", "deployments"],
  ] as const) {
    test(`kubectl scale of a protected ${kind} is refused with rollout-operator's message, also in a dry run`, async () => {
      await done(["create"], manifest("kept", { kind, labels: protection, replicas: 3 }));
      const message = `admission webhook "no-downscale.default.grafana.com" denied the request: downscale of ${plural}/kept in default from 3 to 1 replicas is not allowed because it has the label 'grafana.com/no-downscale=true'`;
      const scale = ["scale", `${kind}/kept`, "--replicas=1"];
      await refused(`Error from server (BadRequest): ${message}`, scale);
      await refused(message, [...scale, "--dry-run=server"]);
      await refused(message, ["patch", `${kind}/kept`, "-p", '{"spec":{"replicas":1}}']);
      await refused(message, [
        "patch",
        `${kind}/kept`,
        "--subresource=scale",
        "-p",
        '{"spec":{"replicas":1}}',
        "--type=merge",
      ]);
      await refused("from 3 to 0 replicas", ["scale", `${kind}/kept`, "--replicas=0"]);
      assert.equal(await replicasOf("kept", plural), 3);
      await done(["scale", `${kind}/kept`, "--replicas=4"]);
      assert.equal(await replicasOf("kept", plural), 4);
    });
  }

  test("an update that removes the label and scales down is refused, and the two updates one after the other are not", async () => {
    await done(["create"], manifest("loose", { labels: protection, replicas: 3 }));
    const both = { metadata: { labels: { "grafana.com/no-downscale": null } }, spec: { replicas: 1 } };
    await refused("from 3 to 1 replicas is not allowed", ["patch", "sts/loose", "-p", JSON.stringify(both)]);
    await done(["label", "sts/loose", "grafana.com/no-downscale-"]);
    await done(["scale", "sts/loose", "--replicas=1"]);
    assert.equal(await replicasOf("loose"), 1);
  });

  test("a protected StatefulSet keeps its first ordinal, unless no pod leaves by the change, which no webhook reviews", async () => {
    await done(["create"], manifest("moved", { labels: protection, replicas: 3 }));
    const move = (start: number, replicas = 3) => {
      const spec = { replicas, ordinals: { start } };
      return ["patch", "sts/moved", "-p", JSON.stringify({ spec })];
    };
    await refused("from ordinals 0-2 to 2-4 is not allowed because it has the label", move(2));
    await refused("from ordinals 0-2 to 1-9 is not allowed because it has the label", move(1, 9));
    await refused("spec.ordinals.start", move(2 ** 31));
    await refused("spec.ordinals.start", move(-1));
    assert.equal(await replicasOf("moved"), 3);
    await done(["label", "sts/moved", "grafana.com/no-downscale-"]);
    await done(move(2));
    await done(["label", "sts/moved", "grafana.com/no-downscale=true"]);
    const asked = reviewsOf("moved");
    await done(move(0, 5));
    assert.deepEqual(reviewsOf("moved"), asked);
    await refused("from 5 to 2 replicas", move(0, 2));
  });

  const serverSide = ["apply", "--server-side"];

  test("a server-side apply of a manifest without replicas does not bring a follower to 1", async () => {
    await done(serverSide, manifest("applied", { annotations: follows, replicas: 5 }));
    const text =
      'statefulsets/applied in default would go from 5 replicas to 1: the manifest that is applied leaves out spec.replicas, which "kubectl" had written, and Kubernetes takes 1. It follows "leader". Write "replicas: 5" into the manifest; where 1 is meant, use kubectl scale';
    await refused(text, serverSide, manifest("applied", { annotations: follows }));
    await refused(text, [...serverSide, "--dry-run=server"], manifest("applied", { annotations: follows }));
    assert.equal(await replicasOf("applied"), 5);
    await done(serverSide, manifest("applied", { annotations: follows, replicas: 5, image: "j" }));
    await done(["patch", "sts/applied", "--field-manager=sluice", "-p", '{"spec":{"replicas":7}}']);
    await done(serverSide, manifest("applied", { annotations: follows, image: "k" }));
    assert.equal(
      await replicasOf("applied"),
      7,
      "another manager owns the number, so that the manifest may leave it out",
    );
    await done(["scale", "sts/applied", "--replicas=1"]);
    assert.equal(await replicasOf("applied"), 1, "the manifest asks for it");
  });

  test("a client-side apply of such a manifest does not bring a follower or a prepared StatefulSet to 1 either", async () => {
    for (const [name, keys] of [
      ["followed", { annotations: follows }],
      ["prepared", { labels: prepared }],
    ] as const) {
      await done(["apply"], manifest(name, { ...keys, replicas: 5 }));
      const text =
        /would go from 5 replicas to 1: .+ which the one before it had, .+ Write "replicas: 5" into the manifest/;
      await refused(text, ["apply"], manifest(name, keys));
      await refused(text, ["apply", "--dry-run=server"], manifest(name, keys));
      assert.equal(await replicasOf(name), 5);
    }
    await done(["apply"], manifest("prepared", { labels: prepared, replicas: 1 }));
    assert.equal(await replicasOf("prepared"), 1, "the manifest has 1");
  });

  test("a patch without the number and the known size, as Helm writes it, does not either; a patch of the number alone means it", async () => {
    await done(["create", "--field-manager=helm"], manifest("released", { replicas: 5 }));
    const release = { metadata: { annotations: follows }, spec: { replicas: null } };
    const patch = ["patch", "sts/released", "--field-manager=helm", "-p", JSON.stringify(release)];
    await refused(
      /the manifest that "helm" writes leaves out spec\.replicas, or says 1\. It follows "leader"\. Write/,
      patch,
    );
    await done(["annotate", "sts/released", "grafana.com/rollout-downscale-leader=leader"]);
    await refused(/the manifest that "helm" writes/, patch);
    await done(["patch", "sts/released", "--field-manager=sluice", "-p", '{"spec":{"replicas":1}}']);
    assert.equal(await replicasOf("released"), 1);
  });

  test("no webhook is asked about changes that make nothing smaller, objects without the label, and Sluice's own objects", async () => {
    await done(["create"], manifest("plain", { kind: "Deployment", replicas: 3 }));
    await done(["create"], manifest("grown", { labels: protection, replicas: 3 }));
    for (const name of ["sluice", "sluice-admission", "mimir-rollout-operator"]) {
      await done(["create"], manifest(name, { kind: "Deployment", labels: protection, replicas: 3 }));
    }
    await done(["patch", "deployment/plain", "-p", '{"spec":{"replicas":1}}']);
    await done(["scale", "sts/grown", "--replicas=4"]);
    await done(["patch", "sts/grown", "-p", '{"spec":{"minReadySeconds":5}}']);
    for (const name of ["sluice", "sluice-admission", "mimir-rollout-operator"]) {
      await done(["scale", `deployment/${name}`, "--replicas=1"]);
    }
    await done(["scale", "deployment/plain", "--replicas=0"]);
    // A scale does not have the labels. If another client writes the object meanwhile, the API server asks again.
    await eventually("a review", 10_000, async () => ((reviewsOf("plain")[0] ?? 0) > 0 ? true : undefined));
    assert.deepEqual(reviewsOf("grown", "sluice", "sluice-admission", "mimir-rollout-operator"), [0, 0, 0, 0]);
  });

  test("while the webhook is down the API server refuses downscales, and all else goes on, also Sluice's own downscales", async () => {
    assert.equal((await server.stop()).code, 0);
    await refused(/failed calling webhook/, ["scale", "sts/grown", "--replicas=2"]);
    await done(["scale", "sts/grown", "--replicas=5"]);
    await done(["patch", "sts/grown", "-p", '{"spec":{"minReadySeconds":7}}']);
    await done(["scale", "deployment/sluice", "--replicas=0"]);
    await done(["patch", "deployment/sluice", "-p", '{"spec":{"replicas":2}}']);
    await done(["patch", "deployment/sluice", "-p", '{"spec":{"replicas":1}}']);
  });
});
