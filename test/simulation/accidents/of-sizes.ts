/** Accidents with sizes: pods that were told to leave and stay, and pods that leave because another pod was told so. */
import { guardDownscale } from "../../../functions/guard-downscale/function.ts";
import { keepLedgers } from "../../../functions/keep-ledgers/function.ts";
import { prepareDelayedDownscale } from "../../../functions/prepare-delayed-downscale/function.ts";
import { prepareDownscale } from "../../../functions/prepare-downscale/function.ts";
import type { AdmissionAnswer, AdmissionHandler } from "../../../functions/shared/admission/definition.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import { delayPath, leavePath } from "../scaling/ingesters.ts";
import type { Accident } from "./accident.ts";
import { annotationsOfPods, writtenByWhom } from "./removals.ts";
import { namespace, type Scene } from "./scene.ts";

const grafana = (name: string) => `grafana.com/${name}`;
const zone = { namespace, name: "db-a" };
const template = { namespace, name: "template" };

function describe({ world }: Scene, metadata: { labels?: object; annotations?: object }): void {
  world.store.patch("statefulsets", zone, { metadata });
}

const sizeOf = ({ world }: Scene) => world.store.get("statefulsets", zone).spec.replicas;

/** The pods of the zone, highest first. */
const podsOf = (scene: Scene): StoredPod[] =>
  scene
    .pods()
    .filter(({ metadata }) => metadata.name.startsWith(`${zone.name}-`))
    .sort((one, other) => (one.metadata.name < other.metadata.name ? 1 : -1));

/** managedFields of a StatefulSet whose manifest sets these fields of the spec by server-side apply. */
const managed = (fields: readonly string[]) => [
  {
    manager: "helm",
    operation: "Apply",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:spec": Object.fromEntries(fields.map((field) => [`f:${field}`, {}])) },
  },
];

/** Both webhooks of sizes, in the API server's order: a mutating one comes first, and that is the one that tells the pods. */
function openWebhooks(scene: Scene): readonly { readonly handler: AdmissionHandler; readonly path: string }[] {
  return [prepareDownscale, guardDownscale].map(({ open, paths: [path = ""] }) => ({
    handler: open(scene.contextOf()),
    path,
  }));
}

/**
 * Does `kubectl apply --server-side` with a manifest without `replicas`, which Kubernetes defaults to 1. Resolves to the
 * refusal; undefined if the change was made.
 */
async function applyWithoutReplicas(scene: Scene): Promise<AdmissionAnswer | undefined> {
  const old = scene.world.store.get("statefulsets", zone);
  const stored = { ...old, apiVersion: "apps/v1", kind: "StatefulSet" };
  const oldObject = { ...stored, metadata: { ...old.metadata, managedFields: managed(["replicas", "template"]) } };
  const object = {
    ...stored,
    metadata: { ...old.metadata, managedFields: managed(["template"]) },
    spec: { ...old.spec, replicas: 1 },
  };
  for (const { handler, path } of openWebhooks(scene)) {
    const answer = await scene.review(handler, {
      uid: `size-${path}`,
      operation: "UPDATE",
      resource: { group: "apps", version: "v1", resource: "statefulsets" },
      subresource: "",
      user: "user",
      namespace,
      name: zone.name,
      dryRun: false,
      object,
      oldObject,
      path,
      deadlineMs: scene.monotonicMs() + 9_000,
    });
    if (!answer.allowed) return answer;
  }
  scene.world.scale(zone, 1);
  return undefined;
}

export const ofSizes: readonly Accident[] = [
  {
    id: "I8",
    source:
      "grafana/mimir#16602: a manifest left replicas out, Kubernetes took 1, and the webhook prepared all other pods for shutdown",
    promise: "the webhook that is asked first refuses before any pod is told, and its message says what to write",
    start: { functions: [keepLedgers] },
    async story(scene) {
      describe(scene, {
        labels: { [grafana("prepare-downscale")]: "true" },
        annotations: {
          [grafana("prepare-downscale-http-path")]: leavePath.slice(1),
          [grafana("prepare-downscale-http-port")]: "80",
        },
      });
      await scene.goOn(31);
      const refusal = await applyWithoutReplicas(scene);
      const prepared = podsOf(scene).filter((pod) => scene.ingesters.isPrepared(pod));
      scene.holds("no pod is told", prepared.length === 0);
      scene.holds("the guard names it", refusal?.guard === "replicas-dropped");
      scene.holds(
        "the message says what to write",
        refusal !== undefined && !refusal.allowed && refusal.message.includes('Write "replicas: 3"'),
      );
      await scene.goOn(120);
      scene.holds("all three stay", sizeOf(scene) === 3 && podsOf(scene).length === 3);
    },
    without: [writtenByWhom],
  },
  {
    id: "F5",
    source: "a process that was marked for removal was included again",
    promise: "the replacement of a prepared pod is told again, and leaves only after the whole delay",
    start: { zones: ["a", "b"], functions: [keepLedgers, prepareDelayedDownscale] },
    async story(scene) {
      const { store } = scene.world;
      store.create("deployments", namespace, { metadata: { name: template.name }, spec: { replicas: 2 } } as never);
      describe(scene, {
        annotations: {
          [grafana("rollout-mirror-replicas-from-resource-name")]: template.name,
          [grafana("rollout-mirror-replicas-from-resource-kind")]: "Deployment",
          [grafana("rollout-mirror-replicas-from-resource-api-version")]: "apps/v1",
          [grafana("rollout-delayed-downscale")]: "300s",
          [grafana("rollout-prepare-delayed-downscale-url")]: `http://pod${delayPath}`,
        },
      });
      await scene.goOn(200);
      const [before] = podsOf(scene);
      scene.holds("it was told", before !== undefined && scene.ingesters.delayed(before) !== undefined);
      store.delete("pods", { namespace, name: "db-a-2" }, {});
      // The replacement finds on its disk that it is prepared. By that alone it could go 100 s later.
      await scene.goOn(250);
      const [after] = podsOf(scene);
      scene.holds("another one has come", after !== undefined && after.metadata.uid !== before?.metadata.uid);
      scene.holds("it was told itself", after !== undefined && scene.ingesters.delayed(after) !== undefined);
      scene.holds("and has not left before its time", sizeOf(scene) === 3);
      await scene.goOn(120);
      scene.holds("then it leaves", sizeOf(scene) === 2);
      scene.holds("and those who stay are not prepared", !podsOf(scene).some((pod) => scene.ingesters.isPrepared(pod)));
    },
    without: [annotationsOfPods],
  },
];
