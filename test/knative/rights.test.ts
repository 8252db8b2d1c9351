/** Every account has the rights that its functions need, and no other: seen by walking each of their paths. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { after, before, suite, test } from "node:test";
import { dump, loadAll } from "js-yaml";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { type FunctionDefinition, isStandard } from "../../functions/shared/contract/definition.ts";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import { isRightMissing } from "../../functions/shared/kubernetes/cluster.ts";
import type { ListedKinds } from "../../knative/render/kinds.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { table } from "../../triggers/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { isWorkload, kubeconfigOf, tokenOf } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { rejection } from "../support/rejection.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { readEverySecret, type Sides, takeToken, touchOwn } from "./attacks.ts";
import { chosenFreely, type Installation, isForeign, walk } from "./installation.ts";
import { rightsOf, textOf } from "./rights.ts";
import { serveRabbitmqClusters } from "./spread.ts";

interface Source extends Built {
  readonly spec: { readonly serviceAccountName: string; readonly resources: readonly { readonly kind: string }[] };
}

const templates = { plural: "replicatemplates", group: "rollout-operator.grafana.com" };
/** Needs the scale of kinds that users name, and nothing besides. */
const follower: FunctionDefinition = {
  ...keepLedgers,
  name: "follow-kinds",
  watches: [],
  needs: [],
  kindNeeds: [{ list: "mirrored", subresource: "scale", verbs: ["get", "patch"], changes: ["spec.replicas"] }],
};

/** Its account in a namespace, with the rights that are rendered for it where these kinds are listed. */
async function rightsToKinds(kubectl: Kubectl, namespace: string, mirrored: ListedKinds["mirrored"]): Promise<Built[]> {
  const kinds = { mirrored, owners: [], machines: [] };
  const files = renderManifests({ groupFunctions: [follower], admissionFunctions: [], cronFunctions: [], kinds });
  const rendered = await kubectl.file("function.yaml", files.get(`functions/${follower.name}.yaml`) ?? "");
  await kubectl.file("kustomization.yaml", dump({ namespace, resources: [basename(rendered)] }));
  const objects = loadAll(await kubectl.run("kustomize", dirname(rendered))) as unknown as Built[];
  return objects.filter((one) => !isForeign(one) && !isWorkload(one));
}

suite("rights on the real API server", { skip: await skipWithoutControlPlane(), concurrency: 2 }, () => {
  let controlPlane: ControlPlane;
  before(async () => {
    controlPlane = await startControlPlane();
    const kubectl = await Kubectl.open(controlPlane);
    await kubectl.apply(await kubectl.build("base/crds"));
    await serveRabbitmqClusters(kubectl);
    await kubectl.waitForDefinitions();
    await kubectl.close();
  });
  after(() => controlPlane?.stop());

  test("the functions of the overlay direct, each by its own account, use each right that they have and lack none", async (context) => {
    const [roller, keeper, spreader] = ["advance-zone-rollout", "keep-ledgers", "rebalance-queues"];
    const play: Installation["play"] = async (start) => {
      const { PORT, TLS_PORT, TLS_DNS_NAME, STATUS_LISTEN } = chosenFreely;
      const certificate = await start("rotate-certificate", { TLS_DNS_NAME });
      const reviews = await start("sluice-admission", { PORT, TLS_PORT, STATUS_LISTEN });
      // Events and ticks alone trigger them, as their sources do.
      const rollout = await start(roller, {});
      const ledgers = await start(keeper, {});
      const delayed = await start("prepare-delayed-downscale", {});
      const follower = await start("follow-replicas", {});
      const releaser = await start("release-prepared", { WRITE_LAST_DOWNSCALE: "true" });
      const marker = await start("mark-skip-label", { SKIP_LABEL_WAIT: "0" });
      const spreading = await start(spreader, { REBALANCE_AFTER: "1s" });
      const suspending = {
        suspender: await start("suspend-group", {}),
        collector: await start("gc-suspended-groups", {}),
        holder: await start("hold-process-groups", {}),
      };
      const scaling = { delayed, follower, releaser };
      return { certificate, reviews, rollout, ledgers, ...scaling, marker, spreader: spreading, ...suspending };
    };
    const accounts = { roller, keeper, spreader, collector: "gc-suspended-groups" };
    const installed = table.filter(isStandard).map(({ name }) => name);
    const functions = installed.filter((name) => name !== "release-namespace");
    const objects = (kubectl: Kubectl) => kubectl.buildIn("loki", "direct");
    await walk(context, controlPlane, { namespace: "loki", objects, functions, ...accounts, play });
  });

  /** Installs an overlay, and has each of its accounts attack, one after the other. Each finds the Secrets of the overlay. */
  async function attack(namespace: string, overlay: string, by: (sides: Sides, account: string) => Promise<void>) {
    const kubectl = await Kubectl.open(controlPlane);
    const administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    try {
      const objects = (await kubectl.buildIn(namespace, overlay)).filter((one) => !isForeign(one) && !isWorkload(one));
      await kubectl.run("create", "namespace", namespace);
      const accounts = objects.filter(({ kind }) => kind === "ServiceAccount");
      assert.ok(accounts.length > 0);
      const secrets = objects.filter(({ kind }) => kind === "Secret");
      const secretsPath = `/api/v1/namespaces/${namespace}/secrets`;
      assert.ok(secrets.length > 0);
      await kubectl.apply(objects);
      for (const { metadata } of accounts) {
        for (const secret of secrets) {
          const { statusCode, body } = await administrator.send("POST", secretsPath, secret);
          await body.dump();
          assert.ok([201, 409].includes(statusCode), `${statusCode}`);
        }
        const token = await tokenOf(administrator, namespace, metadata.name);
        const attacker = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-attacker" });
        await by({ attacker, administrator, namespace }, metadata.name);
        await attacker.close();
      }
    } finally {
      await administrator.close();
      await kubectl.close();
    }
  }

  test("no account gets the token of another one by way of the Secret that it may change", async () => {
    for (const [namespace, overlay] of Object.entries({ "token-alone": "standalone", "token-direct": "direct" })) {
      await attack(namespace, overlay, async (sides, account) => {
        const { retyped, ...made } = await takeToken(sides, "default");
        assert.deepEqual(made, { created: 403, applied: 403, replaced: 403 }, account);
        assert.ok(retyped === 403 || retyped === 422, `${account}: the type of a Secret stays: ${retyped}`);
      });
    }
  });

  test("nor does rollout-operator's own account, with the Role and by the command that the migration has for those who keep it", async () => {
    const migration = await readFile(join(import.meta.dirname, "../../knative/from-rollout-operator.md"), "utf8");
    const [, bound = ""] = /```yaml\n([^`]*operator-account[^`]*)```/.exec(migration) ?? [];
    const [, role = "", rules = ""] = /patch role (\S+) --type merge --patch '([^']+)'/.exec(migration) ?? [];
    const namespace = "mimir-before";
    const kubectl = await Kubectl.open(controlPlane);
    const administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    await kubectl.run("create", "namespace", namespace);
    const inIt = (...text: string[]) => kubectl.run("-n", namespace, ...text);
    await inIt("create", "serviceaccount", "rollout-operator");
    await inIt("create", "role", role, "--verb=create", "--resource=secrets");
    await inIt("create", "rolebinding", role, `--role=${role}`, `--serviceaccount=${namespace}:rollout-operator`);
    // As the operator has made it.
    await inIt("create", "secret", "generic", "rollout-operator-self-signed-certificate");
    await kubectl.applyKustomization(bound.replaceAll("mimir", namespace));
    await inIt("patch", "role", role, "--type", "merge", "--patch", rules);
    const token = await tokenOf(administrator, namespace, "rollout-operator");
    const attacker = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-attacker" });
    const outcome = await takeToken({ attacker, administrator, namespace }, "default");
    // It may replace the Secret that there was, and finds none.
    assert.deepEqual(outcome, { retyped: 422, created: 403, applied: 403, replaced: 404 });
    await Promise.all([attacker.close(), administrator.close(), kubectl.close()]);
  });

  test("no account changes a webhook configuration that is not Sluice's, and the account that renews the certificate changes those that are", async () => {
    const renewing: string[] = [];
    for (const [namespace, overlay] of Object.entries({ "hooks-alone": "standalone", "hooks-direct": "direct" })) {
      await attack(namespace, overlay, async (sides, account) => {
        for (const [tried, status] of Object.entries(await readEverySecret(sides)))
          assert.equal(status, 403, `${account}: ${tried}`);
        const statuses = new Set(Object.values(await touchOwn(sides)));
        assert.equal(statuses.size, 1, account);
        if (statuses.has(200)) renewing.push(account);
        else assert.ok(statuses.has(403), account);
      });
    }
    assert.deepEqual(renewing, ["sluice", "rotate-certificate"]);
  });

  test("an account reaches the scale of a kind that users name where that is listed, and nothing else; before, it finds the kind alone", async () => {
    const [namespace, elsewhere] = ["kinds-here", "kinds-elsewhere"];
    const kubectl = await Kubectl.open(controlPlane);
    const administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    for (const one of [namespace, elsewhere]) {
      await kubectl.run("create", "namespace", one);
      const template = {
        apiVersion: `${templates.group}/v1`,
        kind: "ReplicaTemplate",
        metadata: { name: "one" },
        spec: { replicas: 3 },
      };
      await administrator.post(`/apis/${templates.group}/v1/namespaces/${one}/replicatemplates`, template);
    }
    await kubectl.apply(await rightsToKinds(kubectl, namespace, []));
    const kubeconfig = await kubeconfigOf(controlPlane, administrator, namespace, follower.name);
    const cluster = await connect({ userAgent: "sluice-test-follower", kubeconfig });
    const key = { namespace, name: "one" };
    const { resource } = await cluster.resourceOf(templates.group, "ReplicaTemplate");
    const scale = () => cluster.get(resource, key, { subresource: "scale" });
    const before = await rejection(scale());
    assert.ok(isRightMissing(before), before.message);

    await kubectl.apply(await rightsToKinds(kubectl, namespace, [templates]));
    const granted = await eventually("the right", 10_000, () => scale().catch(() => undefined));
    assert.equal(granted.spec?.replicas, 3);
    const body = { metadata: { resourceVersion: granted.metadata.resourceVersion }, spec: { replicas: 4 } };
    assert.equal((await cluster.patch(resource, key, body, { subresource: "scale" })).spec?.replicas, 4);
    const { uid } = granted.metadata;
    const labels = { metadata: { labels: { a: "1" } } };
    const forbidden: Readonly<Record<string, () => Promise<unknown>>> = {
      "the object": () => cluster.get(resource, key),
      "all of them": () => cluster.list(resource, { namespace }),
      "a new one": () => cluster.create(resource, namespace, { metadata: { name: "two" } }),
      "a label": () => cluster.patch(resource, key, labels),
      "its status": () => cluster.patch(resource, key, { status: { replicas: 1 } }, { subresource: "status" }),
      "its end": () => cluster.delete(resource, key, { uid }),
      "another namespace": () => cluster.get(resource, { ...key, namespace: elsewhere }, { subresource: "scale" }),
      "another kind of the group": () => cluster.get("zoneawarepoddisruptionbudgets", key),
      "another kind's scale": () => cluster.get("statefulsets", key, { subresource: "scale" }),
    };
    for (const [what, attempt] of Object.entries(forbidden)) {
      const error = await rejection(attempt());
      assert.ok(isRightMissing(error), `${what}: ${error.code} ${error.message}`);
    }
    await Promise.all([cluster.close(), administrator.close(), kubectl.close()]);
  });

  test("the account of the sources has what Knative's controller asks whether it has, and no more", async () => {
    const kubectl = await Kubectl.open(controlPlane);
    const administrator = await Api.open(controlPlane, { userAgent: "sluice-test-administrator" });
    const objects = await kubectl.buildIn("tempo", "direct");
    await kubectl.run("create", "namespace", "tempo");
    await kubectl.apply(objects.filter(({ kind }) => kind === "ServiceAccount" || /Role/.test(kind)));
    // As the controller asks: for the namespace of the source, types that are of no namespace included.
    const mayDo = async (account: string, { group, resource, verb }: ReturnType<typeof rightsOf>[number]) => {
      const spec = {
        user: `system:serviceaccount:tempo:${account}`,
        resourceAttributes: { namespace: "tempo", group, resource, verb },
      };
      const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
      const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
      return (await administrator.post<{ status: { allowed: boolean } }>(path, review)).status.allowed;
    };
    const sources = objects.filter((one): one is Source => one.kind === "ApiServerSource");
    assert.equal(sources.length, 15);
    for (const account of new Set(sources.map(({ spec }) => spec.serviceAccountName))) {
      const kinds = sources.filter(({ spec }) => spec.serviceAccountName === account);
      const resources = kinds.flatMap(({ spec }) => spec.resources.map(({ kind }) => `${kind.toLowerCase()}s`));
      const asked = resources.flatMap((resource) => ["get", "list", "watch"].map((verb) => `${verb} ${resource}`));
      const rights = rightsOf(objects, "tempo", account);
      assert.deepEqual(rights.map(textOf).sort(), asked.sort());
      const granted = async () =>
        (await Promise.all(rights.map((right) => mayDo(account, right)))).every(Boolean) ? true : undefined;
      await eventually(`the rights of ${account}`, 10_000, granted);
      const [right] = rights;
      assert.ok(right !== undefined && !(await mayDo(account, { ...right, verb: "patch" })));
    }
    await Promise.all([administrator.close(), kubectl.close()]);
  });
});
