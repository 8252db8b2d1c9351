/** An installation whose accounts walk each path of its functions: they have the rights that they use, and no other. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { auditPosition } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { askWhy } from "../support/ask-why.ts";
import { Ingesters } from "../support/ingester.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { Scene } from "../support/scene.ts";
import { holdProcessGroup } from "./hold-process-group.ts";
import { mirror } from "./mirror.ts";
import { release } from "./release.ts";
import { accountsOf, byName, carelessRights, rightsOf, textOf, usesOf } from "./rights.ts";
import { spread } from "./spread.ts";
import { suspend } from "./suspend.ts";
import { vanish } from "./vanish.ts";
import {
  answer,
  type Cast,
  decideReviews,
  follow,
  furnish,
  letGo,
  lower,
  notifyBefore,
  refuse,
  register,
  renew,
  roll,
  show,
  showKey,
  writeTime,
} from "./walk.ts";

/** Who plays which part; of functions that are not installed, any server does. */
type Play = (
  start: (workload: string, settings: Readonly<Record<string, string>>) => Promise<Cast["rollout"]>,
) => Promise<Cast>;

export interface Installation {
  /** Of the accounts and the certificate. It is served. */
  readonly namespace: string;
  /** More namespaces that are served; absent: none is. */
  readonly others?: readonly string[];
  /** What is installed there: of an overlay, or of the chart. */
  objects(kubectl: Kubectl): Promise<readonly Built[]>;
  /** Names of the functions that are installed. */
  readonly functions: readonly string[];
  /** The account that deletes pods. */
  readonly roller: string;
  /** The account that makes and collects ledgers. */
  readonly keeper: string;
  /** The account that has queues rebalanced. */
  readonly spreader: string;
  /** The account that removes volumes. */
  readonly collector: string;
  /** The account in whose pod users run the kubectl plugin; absent where none may. */
  readonly asker?: string;
  /** Starts the workloads that play the parts. */
  readonly play: Play;
}

interface Walk extends Omit<Installation, "objects" | "play" | "others"> {
  /** All namespaces that are served. */
  readonly places: readonly string[];
  readonly objects: readonly Built[];
  readonly kubectl: Kubectl;
  readonly scene: Scene;
  readonly ingesters: Ingesters;
  readonly cast: Cast;
}

/** What is chosen freely: ports, whom the certificate is made out to, and times that a test does not wait for. */
export const chosenFreely = {
  PORT: "0",
  TLS_PORT: "0",
  TLS_DNS_NAME: "localhost",
  STATUS_LISTEN: "127.0.0.1:0",
  SWEEP_INTERVAL: "4s",
  WRITE_LAST_DOWNSCALE: "true",
  SKIP_LABEL_WAIT: "0",
  REBALANCE_AFTER: "1s",
};

/** What each walk has, in this order, if all of these functions are installed. The certificate is that of the first namespace. */
const parts: readonly (readonly [functions: readonly string[], walk: (walk: Walk) => Promise<void>])[] = [
  [["rotate-certificate"], (all) => register(all.scene, all, all, all.cast)],
  [["advance-zone-rollout"], ({ scene, cast }) => scene.waitForOldLedger(cast.rollout)],
  [["evaluate-eviction", "guard-downscale"], ({ scene, cast }) => decideReviews(scene, cast)],
  [["show-status"], ({ scene, cast }) => show(scene, cast)],
  [[], ({ scene, ingesters }) => answer(scene, ingesters)],
  [
    ["rebalance-queues"],
    ({ scene, cast, ingesters, namespace, spreader }) =>
      spread(scene, cast.spreader, ingesters, { namespace, name: spreader }),
  ],
  [["prepare-downscale", "release-prepared"], ({ scene, cast, ingesters }) => notifyBefore(scene, cast, ingesters)],
  [["prepare-delayed-downscale"], ({ scene, cast, ingesters }) => lower(scene, cast, ingesters)],
  [["follow-replicas"], ({ scene, cast }) => follow(scene, cast)],
  [
    ["prepare-delayed-downscale", "follow-replicas"],
    ({ scene, cast, ingesters, namespace }) => mirror(scene, cast, ingesters, namespace),
  ],
  [["mark-skip-label"], ({ scene, cast }) => letGo(scene, cast)],
  [
    ["suspend-group", "gc-suspended-groups"],
    ({ scene, cast, namespace, collector }) => suspend(scene, cast, userOf(namespace, collector)),
  ],
  [["hold-process-groups"], ({ scene, cast }) => holdProcessGroup(scene, cast)],
  [["advance-zone-rollout"], ({ scene, cast }) => roll(scene, cast)],
  [[], ask],
  [["advance-zone-rollout"], ({ scene, cast, namespace, roller }) => refuse(scene, cast, userOf(namespace, roller))],
  [["keep-ledgers"], ({ scene, cast, namespace, keeper }) => vanish(scene, cast, userOf(namespace, keeper))],
  [["rotate-certificate"], ({ scene, cast }) => renew(scene, cast)],
  [["rotate-certificate", "evaluate-eviction"], (all) => showKey(all.scene, all)],
  [["release-prepared"], ({ scene, cast }) => writeTime(scene, cast)],
  [["release-namespace"], ({ scene, objects }) => release(scene, objects)],
];

/** Users run the plugin in a pod. */
async function ask({ scene, namespace, asker }: Walk): Promise<void> {
  if (asker !== undefined) await askWhy(scene, namespace, asker);
}

function userOf(namespace: string, account: string): string {
  return `system:serviceaccount:${namespace}:${account}`;
}

/** What is not of the namespace, or needs programs that do not run here. */
export const isForeign = ({ apiVersion, kind }: Built) =>
  apiVersion.includes("knative.dev/") || kind === "CustomResourceDefinition";

/** Decides what each account did of what it may, when all parts of the functions that are installed have been walked. */
export async function walk(
  context: TestContext,
  controlPlane: ControlPlane,
  { play, ...installation }: Installation,
): Promise<void> {
  const { namespace, functions } = installation;
  const from = await auditPosition(controlPlane.auditLog);
  const kubectl = await Kubectl.open(controlPlane);
  const objects = await installation.objects(kubectl);
  const places = [namespace, ...(installation.others ?? [])];
  const size = { zones: 3, pods: 2, zoneBudget: { maxUnavailable: 1 } };
  const scenes = await Promise.all(places.map((place) => Scene.set(controlPlane, place, size)));
  const [home = assert.fail()] = scenes;
  // A pod of one name may be in each namespace.
  const first = await Ingesters.open();
  const others = await Promise.all(places.slice(1).map(() => Ingesters.open({ beside: first })));
  const { nodeOptions: NODE_OPTIONS } = first;
  try {
    await Promise.all(scenes.map(furnish));
    await kubectl.apply(objects.filter((one) => !isForeign(one) && !isWebhook(one) && !isWorkload(one)));
    const cast = await play(async (workload, settings) => {
      const { account, settings: rendered } = workloadOf(objects, workload);
      const kubeconfig = await kubeconfigOf(controlPlane, home.api, namespace, account);
      return home.serve({ ...rendered, ...settings, NODE_OPTIONS }, { kubeconfig, namespace: places.join() });
    });
    for (const [needed, part] of parts) {
      if (!needed.every((name) => functions.includes(name))) continue;
      const where = needed.includes("rotate-certificate") ? [home] : scenes;
      await Promise.all(
        where.map((scene, index) => {
          const ingesters = others[index - 1] ?? first;
          return part({ ...installation, places, objects, kubectl, scene, ingesters, cast });
        }),
      );
    }
    await Promise.all(scenes.map((scene) => scene.end()));
    const rights = new Map(
      accountsOf(objects).map((name) => [name, rightsOf(objects, namespace, name).flatMap(byName)] as const),
    );
    for (const [name, { used, missing }] of await usesOf(controlPlane, home.api, from, namespace, rights)) {
      context.diagnostic(`${name}: ${[...used].map(([right, times]) => `${textOf(right)} (${times})`).join(", ")}`);
      assert.deepEqual(missing, [], `${name} lacks a right`);
      const unused = [...used].flatMap(([right, times]) => (times === 0 ? right : []));
      const shown = unused.map(
        (right) => `${textOf(right)}${right.namespace === undefined ? "" : ` in ${right.namespace}`}`,
      );
      assert.deepEqual(shown, [], `${name} has a right that it does not use`);
      assert.deepEqual(carelessRights([...used.keys()]).map(textOf), []);
    }
  } catch (error) {
    for (const scene of scenes) console.error(await scene.describe());
    throw error;
  } finally {
    await Promise.all(scenes.map((scene) => scene.close()));
    await kubectl.close();
    await Promise.all(others.map((one) => one.close()));
    await first.close();
  }
}
