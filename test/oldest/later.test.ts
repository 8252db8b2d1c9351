/** That the run on the oldest Kubernetes is one: it refuses what later versions brought, and would be red where we ship that. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { KUBERNETES } from "../controlplane/assets.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { launchServer } from "../support/server.ts";

interface Workload extends Built {
  readonly spec: { readonly template: { readonly spec: object } };
}

interface Policy extends Built {
  readonly spec: { readonly validations: readonly object[]; readonly matchConditions?: readonly object[] };
}

suite("the oldest Kubernetes on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let objects: readonly Built[];
  before(async () => {
    assert.equal(process.env.SLUICE_TEST_KUBERNETES, "oldest", "run this file with SLUICE_TEST_KUBERNETES=oldest");
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    objects = await kubectl.build("overlays/standalone");
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  const rehearse = (object: Built) => kubectl.apply([object], "--dry-run=server");

  test("the API server says the version that the documents name", async () => {
    const { gitVersion } = JSON.parse(await kubectl.run("get", "--raw", "/version")) as { gitVersion: string };
    assert.equal(gitVersion, `v${KUBERNETES.oldest.version}`);
  });

  test("it refuses a field that a later version has", async () => {
    const deployment = objects.find((one): one is Workload => one.kind === "Deployment") ?? assert.fail();
    await rehearse(deployment);
    const { spec } = deployment;
    const pod = { ...spec.template.spec, resources: { limits: { memory: "1Gi" } } };
    const later: Workload = { ...deployment, spec: { ...spec, template: { ...spec.template, spec: pod } } };
    await assert.rejects(rehearse(later), /spec\.template\.spec\.resources: field not declared in schema/);
  });

  test("it refuses a function of CEL that a later version has, in a validation and in a match condition", async () => {
    const isPolicy = (one: Built): one is Policy => one.kind === "ValidatingAdmissionPolicy";
    const policy = objects.find(isPolicy) ?? assert.fail();
    await rehearse(policy);
    const expression = "isSemver('1.0.0')";
    const { spec } = policy;
    const validations = [...spec.validations, { expression }];
    const matchConditions = [...(spec.matchConditions ?? []), { name: "later", expression }];
    for (const later of [{ validations }, { matchConditions }]) {
      const changed: Policy = { ...policy, spec: { ...spec, ...later } };
      await assert.rejects(rehearse(changed), /undeclared reference to 'isSemver'/);
    }
  });

  test("fencing does not start on it, and says in one message which version it needs", async () => {
    const settings = { FUNCTION: "fence-node" };
    const launched = launchServer({ kubeconfig: controlPlane.kubeconfig, namespace: "default", settings });
    const { code } = await launched.ended;
    const { stdout, stderr } = launched.printed();
    assert.equal(code, 1);
    const [, minor] = KUBERNETES.oldest.version.split(".");
    const expected = `sluice: fence-node needs Kubernetes 1.32 or newer, and the API server is of version 1.${minor}: it does not start\n`;
    assert.equal(stderr, expected);
    assert.ok(!stdout.includes("listening on port"));
  });
});
