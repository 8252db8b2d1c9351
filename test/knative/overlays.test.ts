/** The overlays, as kubectl builds them, against the schemas and the admission of a real API server. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { after, before, suite, test } from "node:test";
import { promisify } from "node:util";
import { dump, loadAll } from "js-yaml";
import { type ControlPlane, findAssets, startControlPlane } from "../controlplane/controlplane.ts";
import { ensureSchemas } from "./schemas.ts";

const execute = promisify(execFile);
const knative = join(import.meta.dirname, "../../knative");
const assets = await findAssets();
if (assets === undefined && process.env.CI === "true") throw new Error("the control plane is missing");
const schemas = await ensureSchemas().catch((error: Error) => error);
if (schemas instanceof Error && process.env.CI === "true") throw schemas;

interface Built {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** What the API server knows without anybody's CRDs. */
const isBuiltIn = ({ apiVersion }: Built) => !/knative\.dev|monitoring\.coreos\.com/.test(apiVersion);

suite("overlays on the real API server", { skip: assets === undefined ? "no control plane" : false }, () => {
  let controlPlane: ControlPlane;
  let folder: string;
  before(async () => {
    controlPlane = await startControlPlane();
    folder = await mkdtemp(join(tmpdir(), "sluice-overlays-"));
  });
  after(async () => {
    await controlPlane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const kubectl = async (...args: string[]): Promise<string> => {
    const { stdout } = await execute(controlPlane.kubectl, ["--kubeconfig", controlPlane.kubeconfig, ...args]);
    return stdout;
  };
  const build = async (path: string) => loadAll(await kubectl("kustomize", path)) as unknown as Built[];
  const file = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const lines = (objects: readonly Built[]) => objects.map((object) => dump(object, { noRefs: true })).join("---\n");
  /** Applies with strict field validation; resolves to what kubectl says of each object. */
  const apply = async (objects: readonly Built[], ...options: string[]) => {
    const path = await file("objects.yaml", lines(objects));
    const said = await kubectl("apply", "--server-side", "--validate=strict", ...options, "-f", path);
    return said.trim().split("\n");
  };
  /** A user's own kustomization: an overlay in another namespace. */
  const inNamespace = async (overlay: string, namespace: string) => {
    const from = (path: string) => relative(folder, join(knative, path));
    const kustomization = {
      namespace,
      resources: [from(`overlays/${overlay}`)],
      transformers: [from("namespace")],
    };
    await file("kustomization.yaml", dump(kustomization));
    return build(folder);
  };

  const passes = async (objects: readonly Built[]) => {
    const said = await apply(objects, "--dry-run=server");
    assert.equal(said.length, objects.length, said.join("\n"));
    for (const line of said) assert.match(line, /serverside-applied \(server dry run\)$/);
  };

  test("every built-in object of every overlay passes a strict dry run, whatever CRDs there are", async () => {
    for (const overlay of ["standalone", "direct", "broker"]) {
      const objects = (await build(join(knative, "overlays", overlay))).filter(isBuiltIn);
      assert.ok(objects.length > 10);
      await passes(objects);
    }
  });

  test("a misspelled field does not pass", async () => {
    const [object] = (await build(join(knative, "overlays/standalone"))).filter(({ kind }) => kind === "Deployment");
    assert.ok(object !== undefined);
    await assert.rejects(apply([{ ...object, spek: {} } as Built], "--dry-run=server"), /spek/);
  });

  const skip = schemas instanceof Error ? `no CRDs: ${schemas.message}` : false;
  test("every object passes one against the CRDs of Knative and prometheus-operator", { skip }, async () => {
    assert.ok(!(schemas instanceof Error));
    await kubectl("create", ...schemas.flatMap((path) => ["-f", path]));
    await kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
    for (const folder of ["overlays/standalone", "overlays/direct", "overlays/broker", "base/monitoring"]) {
      await passes(await build(join(knative, folder)));
    }
    const [service] = (await build(join(knative, "overlays/direct"))).filter((one) => /serving/.test(one.apiVersion));
    assert.ok(service !== undefined);
    await assert.rejects(apply([{ ...service, spek: {} } as Built], "--dry-run=server"), /spek/);
  });

  test("in another namespace, everything is named for it, and nothing is left of the one before", async () => {
    for (const overlay of ["standalone", "direct", "broker"]) {
      const objects = await inNamespace(overlay, "my-mimir");
      const crds = objects.filter(({ kind }) => kind === "CustomResourceDefinition").length;
      const named = objects
        .filter(({ kind }) => /Webhook|ClusterRoleBinding/.test(kind))
        .map(({ metadata }) => metadata.name);
      for (const name of named) assert.match(name, /[-:]my-mimir$/);
      assert.ok(crds === 2 && named.length >= 3);
      const text = lines(objects.filter(({ kind }) => kind !== "CustomResourceDefinition"));
      assert.doesNotMatch(text, /\bdefault\b/);
      const clusterWide = /^(ClusterRole|ClusterRoleBinding|CustomResourceDefinition|.*WebhookConfiguration)$/;
      for (const { kind, metadata } of objects) {
        assert.equal(metadata.namespace, clusterWide.test(kind) ? undefined : "my-mimir", `${kind} ${metadata.name}`);
      }
    }
  });

  test("while no replica answers, evictions are refused, but for those of Sluice's own pods", async () => {
    await kubectl("create", "namespace", "evictions");
    await apply(await inNamespace("standalone", "evictions"));
    // The Deployment would go on making pods; those of this test are its own.
    await kubectl("delete", "-n", "evictions", "deployment,poddisruptionbudget", "sluice");
    const evict = async (name: string): Promise<string> => {
      const pod = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "evictions" },
        spec: { containers: [{ name: "c", image: "c" }] },
      };
      await apply([pod as Built]);
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "evictions" } };
      const path = await file("eviction.json", JSON.stringify(eviction));
      const url = `/api/v1/namespaces/evictions/pods/${name}/eviction`;
      return kubectl("create", "--raw", url, "-f", path).then(
        () => "evicted",
        (error: { stderr: string }) => error.stderr,
      );
    };
    // The API server learns of a webhook a moment after it has stored it.
    for (let tries = 0; (await evict(`probe-${tries}`)) === "evicted"; tries++) assert.ok(tries < 50);
    assert.match(await evict("ingester-zone-a-0"), /failed calling webhook "pod-eviction\.evictions\.grafana\.com"/);
    assert.match(await evict("sluice-zone-a-24567890"), /failed calling webhook/);
    assert.equal(await evict("sluice-7c9f6d5b8-x7k2p"), "evicted");
    assert.equal(await evict("sluice-admission-7c9f6d5b8-x7k2p"), "evicted");
  });
});
