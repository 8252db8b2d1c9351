/** The part of a Pod that the fake kubelet reads. */
export interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
    managedFields?: unknown;
  };
  readonly spec: {
    readonly nodeName?: string;
    readonly containers: readonly Container[];
    readonly initContainers?: readonly Container[];
  };
  readonly status?: {
    readonly startTime?: string;
    readonly podIP?: string;
    readonly conditions?: readonly Condition[];
  };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly restartPolicy?: string;
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly lastTransitionTime?: string;
}

/** The reason for which containers wait; undefined if they run. */
export type WaitingReason = string | undefined;

/** In place of a reason: the container runs, and its readiness probe fails; an init container runs and does not end. */
export const UNREADY = "Unready";

/** Reasons for which a real pod has not started and stays Pending. */
const NEVER_STARTED = new Set([
  "ContainerCreating",
  "CreateContainerConfigError",
  "CreateContainerError",
  "ErrImageNeverPull",
  "ErrImagePull",
  "ImageInspectError",
  "ImagePullBackOff",
  "InvalidImageName",
  "PodInitializing",
]);
const OWN_CONDITIONS = new Set([
  "PodReadyToStartContainers",
  "PodScheduled",
  "Initialized",
  "ContainersReady",
  "Ready",
]);

/** Whether an image's tag means that its container never becomes ready. */
export function isBrokenImage(image: string): boolean {
  return image.endsWith(":broken");
}

/** Whether the API server already has this pod as Ready. */
export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

/** When a kubelet writes a status. */
export interface StatusTimes {
  readonly now: Date;
  /** When it first saw the pod: a real one says at once that the pod starts, and is not Ready. */
  readonly seen: Date;
}

/**
 * A pod's status, whole, as a kubelet writes it. Conditions of other types stay as they are in `pod`; the kubelet's own keep
 * their time while their status stays the same.
 *
 * @param waiting the reason for which each container waits @param ip is used if the pod has none yet
 */
export function podStatus(
  pod: Pod,
  waiting: (container: Container) => WaitingReason,
  ip: string,
  { now, seen }: StatusTimes,
): object {
  const time = timeOf(now);
  const startTime = pod.status?.startTime ?? timeOf(seen);
  const podIP = pod.status?.podIP || ip;
  const initReasons = (pod.spec.initContainers ?? []).map(waiting);
  const initialized = initReasons.every((reason) => reason === undefined);
  const reasons = pod.spec.containers.map((container) => (initialized ? waiting(container) : "PodInitializing"));
  const ready = reasons.every((reason) => reason === undefined);
  const readySince = ready ? time : startTime;
  const condition = (type: string, holds: boolean, firstSince: string): object => {
    const status = holds ? "True" : "False";
    const before = pod.status?.conditions?.find((one) => one.type === type);
    const since = before?.status === status ? before.lastTransitionTime : time;
    const lastTransitionTime = before === undefined ? firstSince : since;
    return holds
      ? { type, status, lastTransitionTime }
      : {
          type,
          status,
          lastTransitionTime,
          reason: "ContainersNotReady",
          message: `containers with unready status: [${pod.spec.containers
            .filter((_, index) => reasons[index] !== undefined)
            .map(({ name }) => name)
            .join(" ")}]`,
        };
  };
  return {
    phase: reasons.some((reason) => reason !== undefined && NEVER_STARTED.has(reason)) ? "Pending" : "Running",
    startTime,
    hostIP: "127.0.0.1",
    hostIPs: [{ ip: "127.0.0.1" }],
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [
      ...(pod.status?.conditions ?? []).filter(({ type }) => !OWN_CONDITIONS.has(type)),
      condition("PodScheduled", true, startTime),
      condition("Initialized", initialized, startTime),
      condition("ContainersReady", ready, readySince),
      condition("Ready", ready, readySince),
    ],
    containerStatuses: pod.spec.containers.map((container, index) => runningOrWaiting(container, reasons[index], time)),
    ...(pod.spec.initContainers?.length
      ? {
          initContainerStatuses: pod.spec.initContainers.map((one, index) => initStatus(one, initReasons[index], time)),
        }
      : {}),
  };
}

function runningOrWaiting({ name, image }: Container, reason: WaitingReason, time: string): object {
  const common = { name, image, imageID: image, ready: reason === undefined, started: reason === undefined };
  if (reason === undefined || reason === UNREADY)
    return { ...common, started: true, restartCount: 0, state: { running: { startedAt: time } } };
  const state = { waiting: { reason, message: `${reason} by the fake kubelet` } };
  if (reason !== "CrashLoopBackOff") return { ...common, restartCount: 0, state };
  const terminated = { exitCode: 1, reason: "Error", startedAt: time, finishedAt: time };
  return { ...common, restartCount: 1, state, lastState: { terminated } };
}

function initStatus(container: Container, reason: WaitingReason, time: string): object {
  if (container.restartPolicy === "Always" || reason !== undefined) return runningOrWaiting(container, reason, time);
  const { name, image } = container;
  const terminated = { exitCode: 0, reason: "Completed", startedAt: time, finishedAt: time };
  return { name, image, imageID: image, ready: true, restartCount: 0, state: { terminated } };
}

function timeOf(date: Date): string {
  return `${date.toISOString().slice(0, 19)}Z`;
}

/** The n-th pod's address, in 10.128.0.0/9. */
export function podAddress(n: number): string {
  return `10.${128 + ((n >> 16) & 127)}.${(n >> 8) & 255}.${n & 255}`;
}
