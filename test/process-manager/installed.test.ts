/**
 * The overlay `restart` beside the overlay `standalone`, on a real API server: its account restarts the process of a pod with the
 * rights that it has and that a user adds, and with no others, and the policies limit what else it could do.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { load } from "js-yaml";
import { Api, type ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, tokenOf, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import type { Server } from "../support/server.ts";
import { type ExampleSet, exampleObjects, ofKind } from "./example.ts";
import { patienceMs } from "./pod.ts";
import { podName, RestartStage, skipWithoutStage, tokenSecret } from "./restart-stage.ts";

const name = "advance-process-restart";
const namespace = "search";
const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/search";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** A user binds the Role by which the function may read the token. */
const readerBinding = {
  metadata: { name: "restart-token" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "restart-token" },
  subjects: [{ kind: "ServiceAccount", name, namespace }],
};

suite("the overlay of restarts on the real API server", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let kubectl: Kubectl;
  let objects: readonly Built[];
  let server: Server;
  let from: number;
  before(async () => {
    stage = await RestartStage.set(namespace);
    kubectl = await Kubectl.open(stage.controlPlane);
    objects = await kubectl.buildIn(namespace, "standalone", [], [], ["overlays/restart"]);
    await kubectl.apply(objects.filter((one) => !isWorkload(one) && !isWebhook(one) && !isDefinition(one)));
    const { account, settings } = workloadOf(objects, name);
    from = await auditPosition(stage.controlPlane.auditLog);
    const kubeconfig = await kubeconfigOf(stage.controlPlane, stage.api, namespace, account);
    server = await stage.serve({ ...settings, PORT: "0", SWEEP_INTERVAL: "2s" }, kubeconfig);
  });
  after(async () => {
    await kubectl?.close();
    await stage?.close();
  });

  test("a kustomization of this overlay alone names the same namespace as one beside another overlay", async () => {
    const readme = await readFile(join(import.meta.dirname, "../../knative/README.md"), "utf8");
    const [, text = ""] = /```yaml\n([^`]*namespace-beside[^`]*)```/.exec(readme) ?? [];
    const built = await kubectl.buildKustomization(text.replace("mimir", namespace));
    const nameOf = ({ kind, metadata }: Built) => `${kind} ${metadata.name}`;
    const names = built.map(nameOf);
    const same = objects.filter((one) => names.includes(nameOf(one)));
    // The image is the user's own there.
    const comparable = (some: readonly Built[]) => JSON.stringify(some).replaceAll(/"image":"[^"]+"/g, "");
    assert.ok(names.length >= 9);
    assert.equal(comparable(built), comparable(same));
    assert.doesNotMatch(comparable(built), /\bdefault\b/);
  });

  const ownRole = () => {
    const role = objects.find(({ kind, metadata }) => kind === "Role" && metadata.name === name);
    return (role as (Built & { readonly rules: readonly Rule[] }) | undefined) ?? assert.fail("no Role");
  };
  const starts = async () => (await stage.one.pod.journal()).filter((line) => line.startsWith("start")).length;

  test("every object of the overlay passes a strict dry run, its replicas included", async () => {
    const built = await kubectl.build("overlays/restart");
    const output = await kubectl.apply(built, "--dry-run=server");
    assert.equal(output.length, built.length);
    for (const line of output) assert.match(line, /serverside-applied \(server dry run\)$/);
  });

  test("the example is accepted, pods included, where the Pod Security level restricted is enforced", async () => {
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await stage.api.post("/api/v1/namespaces", { metadata: { name: "example", labels } });
    const placed = (one: Built): Built => ({ ...one, metadata: { ...one.metadata, namespace: "example" } }) as Built;
    const example = (await exampleObjects()).map(placed);
    await kubectl.apply(example);
    const { template } = ofKind<ExampleSet>(example, "StatefulSet").spec;
    const volumes = [...template.spec.volumes, { name: "data", emptyDir: {} }];
    const podWith = (more: object) => {
      const metadata = { ...template.metadata, name: "search-alone", namespace: "example" };
      return {
        apiVersion: "v1",
        kind: "Pod",
        metadata,
        spec: { ...template.spec, volumes, ...more },
      } as unknown as Built;
    };
    await kubectl.apply([podWith({})], "--dry-run=server");
    await assert.rejects(
      kubectl.apply([podWith({ hostPID: true })], "--dry-run=server"),
      /violates PodSecurity "restricted/,
    );
  });

  test("without a Role for the Secret of the token a restart waits, and its message has the rule of that Role", async () => {
    await stage.one.pod.mount({ "db.yml": "second" });
    await stage.mark("schedule");
    const rule = await eventually("the rule in the log", patienceMs * 2, async () => {
      const texts = server.log.flatMap((line) => Object.values(line)).filter((value) => typeof value === "string");
      return texts.flatMap((text) => /write one with (apiGroups: .*), and bind it/.exec(text)?.[1] ?? [])[0];
    });
    assert.deepEqual([await starts(), await stage.claims()], [1, ""]);
    const rules = [load(`{${rule}}`)];
    assert.deepEqual(rules, [
      { apiGroups: [""], resources: ["secrets"], resourceNames: [tokenSecret], verbs: ["get"] },
    ]);
    await stage.api.post(`${rbac}/roles`, { metadata: { name: "restart-token" }, rules });
    await stage.api.post(`${rbac}/rolebindings`, readerBinding);
  });

  test("its account restarts a process, uses each right that it has, and lacks no other", async () => {
    await stage.withoutPhase().catch((error) => {
      for (const line of server.log) console.error(JSON.stringify(line));
      throw error;
    });
    assert.deepEqual(await stage.one.pod.journal(), ["start first", "stop", "start second"]);
    await stage.markAll("schedule-rolling");
    await stage.withoutPhase();
    assert.equal(await starts(), 3);
    assert.equal(await stage.claims(), "");
    // No object is of this resource: the guard policies ask for the right to it.
    const rights = ownRole().rules.filter(({ resources }) => !resources.includes("ledgers"));
    const granted = rights.flatMap(({ resources, verbs }) =>
      resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)),
    );
    const { asked, forbidden } = await askedBy(stage.controlPlane, from, namespace, name);
    assert.deepEqual(forbidden, ["get secrets"], "before the Role was there");
    assert.deepEqual(
      granted.filter((right) => !asked.includes(right)),
      [],
      "a right that it does not use",
    );
    assert.ok(asked.includes("get secrets") && !granted.some((right) => right.endsWith("secrets")));
  });

  test("without the right that the guard policies ask for, nothing is claimed, no process stops, and the log names the right", async () => {
    const { rules, ...role } = ownRole();
    const restarted = await starts();
    const left = rules.filter(({ resources }) => !resources.includes("ledgers"));
    await stage.api.request("PUT", `${rbac}/roles/${name}`, { ...role, rules: left });
    await stage.mark("schedule");
    await eventually("the refusal in the log", patienceMs * 2, async () =>
      server.log.some((line) => /edit on ledgers\.sluice\.dev/.test(JSON.stringify(line))) ? true : undefined,
    );
    assert.deepEqual([await stage.claims(), await starts()], ["", restarted]);
    await stage.api.request("PUT", `${rbac}/roles/${name}`, { ...role, rules });
    await stage.withoutPhase();
    assert.equal(await starts(), restarted + 1, "with the right it goes on by itself");
  });

  test("its token changes nothing else: no image of a pod, no annotation of a user, and no Lease that is no ledger", async () => {
    const token = await tokenOf(stage.api, namespace, name);
    const { url, caFile } = stage.controlPlane;
    const thief = await Api.open({ url, caFile, token }, { userAgent: "sluice-test-thief" });
    try {
      const path = stage.path("pods", podName);
      const changes = [
        { spec: { containers: [{ name: "app", image: "app:evil" }] } },
        { metadata: { annotations: { "example.com/note": "mine" } } },
        { metadata: { labels: { "rollout-group": "other" } } },
      ];
      for (const change of changes)
        await assert.rejects(
          thief.request("PATCH", path, change, "application/strategic-merge-patch+json"),
          (error: ApiError) => /sluice-fence-restart-objects\.search.* may be changed by/s.test(error.message),
        );
      const lease = { metadata: { name: "leader", namespace }, spec: {} };
      await assert.rejects(
        thief.post(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`, lease),
        /sluice-fence-restart-leases\.search.* Sluice writes no Lease but/s,
      );
    } finally {
      await thief.close();
    }
  });
});
