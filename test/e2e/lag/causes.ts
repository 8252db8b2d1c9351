/** Why a revision never starts, for each cause as a real kubelet or scheduler reports it. */
import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../controlplane/api.ts";
import { ANNOTATIONS } from "../../controlplane/kubelet.ts";
import type { PodSighting } from "./check-history.ts";
import type { Stage, Template } from "./stage.ts";

export interface Cause {
  readonly name: string;
  /** What the pod's status says, again and again the same. */
  status(at: string, container: { readonly name: string; readonly image: string }): object;
  /** What the template asks for besides. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

type Container = Parameters<Cause["status"]>[1];

function condition(type: string, status: "True" | "False", at: string, reason?: string): object {
  return { type, status, lastTransitionTime: at, ...(reason === undefined ? {} : { reason }) };
}

/** Of a pod that has a node: its containers are not ready. */
function conditions(at: string, isInitialized: boolean): object[] {
  return [
    condition("PodScheduled", "True", at),
    condition(
      "Initialized",
      isInitialized ? "True" : "False",
      at,
      isInitialized ? undefined : "ContainersNotInitialized",
    ),
    condition("ContainersReady", "False", at, "ContainersNotReady"),
    condition("Ready", "False", at, "ContainersNotReady"),
  ];
}

function containerStatus({ name, image }: Container, state: object, restartCount = 0): object {
  return { name, image, imageID: "", ready: false, started: false, restartCount, state };
}

function waiting(phase: "Pending" | "Running", reason: string, restartCount = 0): Cause["status"] {
  return (at, container) => ({
    phase,
    startTime: at,
    conditions: conditions(at, true),
    containerStatuses: [containerStatus(container, { waiting: { reason } }, restartCount)],
  });
}

const init = { name: "init", image: "init:1" };

export const causes: readonly Cause[] = [
  { name: "a ConfigMap that is missing", status: waiting("Pending", "ContainerCreating") },
  {
    name: "no node that it fits",
    spec: { nodeName: null, nodeSelector: { "test.sluice.dev/no-node": "has-this" } },
    status: (at) => ({ phase: "Pending", conditions: [condition("PodScheduled", "False", at, "Unschedulable")] }),
  },
  {
    name: "a readiness probe that fails",
    status: (at, container) => ({
      phase: "Running",
      startTime: at,
      conditions: conditions(at, true),
      containerStatuses: [{ ...containerStatus(container, { running: { startedAt: at } }), started: true }],
    }),
  },
  { name: "a container that crashes", status: waiting("Running", "CrashLoopBackOff", 3) },
  { name: "an image that cannot be pulled", status: waiting("Pending", "ErrImagePull") },
  {
    name: "an init container that never ends",
    spec: { initContainers: [init] },
    status: (at, container) => ({
      phase: "Pending",
      startTime: at,
      conditions: conditions(at, false),
      initContainerStatuses: [containerStatus(init, { running: { startedAt: at } })],
      containerStatuses: [containerStatus(container, { waiting: { reason: "PodInitializing" } })],
    }),
  },
  {
    name: "a container that cannot be configured",
    status: waiting("Pending", "CreateContainerConfigError"),
  },
];

const neverMs = 86_400_000;
const image = "app:never";

/** The template of a revision that never starts. The fake kubelet reports nothing about its pods, and `play` does. */
export function neverStarting({ spec, metadata }: Template, cause: Cause): Template {
  const annotations = { ...metadata.annotations, [ANNOTATIONS.readyAfterMs]: String(neverMs) };
  const whole = { ...spec, ...cause.spec, containers: [{ name: "app", image }] };
  return {
    metadata: { annotations },
    spec: Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== null)) as Template["spec"],
  };
}

/** Writes the status of each pod that is of another revision than those, once, until `signal` is aborted. */
export async function play(stage: Stage, cause: Cause, known: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  const notified = new Set<string>();
  while (!signal.aborted) {
    for (const pod of stage.witness.pods) {
      if (notified.has(pod.uid) || pod.terminating || known.has(pod.podRevision ?? "")) continue;
      notified.add(pod.uid);
      await notify(stage, cause, pod);
    }
    await delay(100);
  }
}

async function notify(stage: Stage, cause: Cause, { name, uid }: PodSighting): Promise<void> {
  const at = `${new Date().toISOString().slice(0, 19)}Z`;
  const status = cause.status(at, { name: "app", image });
  const path = `/api/v1/namespaces/${stage.group.namespace}/pods/${name}/status`;
  await stage.api.patch(path, { metadata: { uid }, status }).catch((error: unknown) => {
    // It has gone meanwhile, or another one has its name.
    if (!(error instanceof ApiError && (error.status === 404 || error.status === 409))) throw error;
  });
}
