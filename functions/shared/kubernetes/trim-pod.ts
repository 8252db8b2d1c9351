/** Trims the pods of a LIST: no function reads most of a pod, and most of the rest is the same text as in the pod before. */
import type { Container, ContainerStatus, Metadata, OwnerReference, PodObject, Toleration } from "./cluster.ts";

type PodStatus = NonNullable<PodObject["status"]>;
type ListedSpec = NonNullable<PodObject["spec"]>;
type Volumes = NonNullable<ListedSpec["volumes"]>;

/** Requires every field of a type, so that a field that is added later, and not kept here, does not compile. */
export type EachOf<T, Unread extends keyof T = never> = { readonly [Field in Exclude<keyof T, Unread>]-?: unknown };

/** Of these states, nothing else is read. */
const running = { running: {} };
const terminated = { terminated: {} };

/**
 * Keeps the fields of `PodObject`, and of conditions only `Ready`, so that a list of ten thousand pods is small. Pods of one
 * StatefulSet follow each other in a list, so that a text that the pod before has in the same place is kept once for both.
 */
export class KeptPods {
  readonly #before = new Map<string, string>();
  readonly #arraysBefore = new Map<string, { readonly text: string; readonly values: readonly unknown[] }>();

  /** Reduces the next pod of the list, and changes its argument. */
  keep({ metadata, spec, status }: PodObject): PodObject {
    return {
      metadata: this.#metadata(metadata),
      ...(spec && { spec: this.#spec(spec) }),
      ...(status && { status: this.#status(status) }),
    };
  }

  #text<T extends string | undefined>(place: string, text: T): T {
    const before = this.#before.get(place);
    if (before === text) return before as T;
    if (text !== undefined) this.#before.set(place, text);
    return text;
  }

  #texts(place: string, texts: Metadata["labels"]): Metadata["labels"] {
    if (texts === undefined) return undefined;
    const kept = texts as Record<string, string>;
    for (const key of Object.keys(kept)) kept[key] = this.#text(`${place} ${key}`, kept[key] as string);
    return kept;
  }

  #spec({ volumes = [], containers, initContainers, nodeName, tolerations }: ListedSpec): ListedSpec {
    return {
      nodeName: this.#text("node", nodeName),
      tolerations: tolerations && this.#shared("tolerations", tolerations.map(keptToleration)),
      volumes: pvcVolumesOf(volumes),
      containers: this.#images("containers", containers),
      initContainers: this.#images("first containers", initContainers),
    } satisfies EachOf<ListedSpec> as ListedSpec;
  }

  #images(place: string, all: readonly Container[] | undefined): readonly Container[] | undefined {
    if (all === undefined) return undefined;
    return this.#shared(
      place,
      all.map(({ image }) => ({ image }) satisfies EachOf<Container, "env"> as Container),
    );
  }

  /** Pods with the same images or tolerations share one array of them, so that thousands of pods cost nothing more. */
  #shared<T>(place: string, values: readonly T[]): readonly T[] {
    const text = JSON.stringify(values);
    const before = this.#arraysBefore.get(place);
    if (before?.text === text) return before.values as readonly T[];
    this.#arraysBefore.set(place, { text, values });
    return values;
  }

  #metadata(metadata: Metadata): Metadata {
    const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp, finalizers } =
      metadata;
    return {
      ...{ name, namespace: this.#text("namespace", namespace), uid, resourceVersion, generation },
      creationTimestamp: this.#text("created", creationTimestamp),
      deletionTimestamp,
      labels: this.#texts("label", metadata.labels),
      annotations: this.#texts("annotation", metadata.annotations),
      ownerReferences: metadata.ownerReferences?.map((reference) => this.#owner(reference)),
      finalizers,
    } satisfies EachOf<Metadata, "managedFields"> as Metadata;
  }

  #owner({ apiVersion, kind, name, uid, controller }: OwnerReference): OwnerReference {
    return {
      apiVersion: this.#text("owner's version", apiVersion),
      kind: this.#text("owner's kind", kind),
      name: this.#text("owner", name),
      uid: this.#text("owner's uid", uid),
      controller,
    } satisfies EachOf<OwnerReference> as OwnerReference;
  }

  #status({ phase, startTime, podIP, conditions, containerStatuses, initContainerStatuses }: PodStatus): PodStatus {
    return {
      phase: this.#text("phase", phase),
      podIP,
      startTime: this.#text("started", startTime),
      conditions: conditions
        ?.filter(({ type }) => type === "Ready")
        .map(({ type, status, lastTransitionTime }) => ({
          type: this.#text("condition", type),
          status: this.#text("condition's status", status),
          lastTransitionTime: this.#text("ready since", lastTransitionTime),
        })),
      containerStatuses: this.#containers(containerStatuses),
      initContainerStatuses: this.#containers(initContainerStatuses),
    } satisfies EachOf<PodStatus> as PodStatus;
  }

  #containers(all: PodStatus["containerStatuses"]): PodStatus["containerStatuses"] {
    return all?.map(({ name, containerID, ready, restartCount, state }, index) => {
      return {
        name: this.#text(`container ${index}`, name),
        containerID,
        ready,
        restartCount,
        state: state && this.#state(state),
      } satisfies EachOf<ContainerStatus> as ContainerStatus;
    });
  }

  #state(state: NonNullable<ContainerStatus["state"]>): ContainerStatus["state"] {
    if (state.running !== undefined) return running;
    if (state.terminated !== undefined) return terminated;
    if (state.waiting === undefined) return {};
    const { reason } = state.waiting;
    return reason === undefined ? { waiting: {} } : { waiting: { reason: this.#text("reason", reason) } };
  }
}

function keptToleration({ key, operator, value, effect, tolerationSeconds }: Toleration): Toleration {
  return { key, operator, value, effect, tolerationSeconds } satisfies EachOf<Toleration> as Toleration;
}

function pvcVolumesOf(volumes: Volumes): Volumes {
  return volumes.flatMap(({ persistentVolumeClaim }) => {
    if (persistentVolumeClaim?.claimName === undefined) return [];
    return [{ persistentVolumeClaim: { claimName: persistentVolumeClaim.claimName } }];
  });
}
