/**
 * HTTP to the pods of the fake cluster, in its time. Bounds, turns and errors are those of `functions/shared/http`; only the
 * transport of requests is simulated.
 */
import { type Delivery, PodCalls, type PodCallsOptions, type Transport } from "../../functions/shared/http/calls.ts";
import type { PodHttp } from "../../functions/shared/http/pod-http.ts";
import { ExchangeError, type ExchangeLimits, type HttpAnswer } from "../../functions/shared/transport/exchange.ts";
import type { StoredPod } from "./objects.ts";
import type { World } from "./world.ts";

/** What a pod does with a request: it answers, ends the connection, or never answers. */
export type PodReply =
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  | "break"
  | "hang";

/** The three messages of a request: opening the connection, request, and answer. */
export type PodLeg = "connect" | "request" | "reply";

/** Time that a message takes, in milliseconds. A `lost` one never arrives, and the call ends by its time limit. */
export type PodWay = (leg: PodLeg, delivery: Delivery) => number | "lost";

export interface WorldPodHttpOptions extends Pick<PodCallsOptions, "clock"> {
  readonly world: World;
  /**
   * The program in the pods, called when a request arrives. It must remember by the pod's uid what a pod was told, because
   * another pod of the same name was told nothing.
   */
  readonly answer: (pod: StoredPod, delivery: Delivery) => PodReply;
  /** Default: a running pod listens on every port. */
  readonly listens?: (pod: StoredPod, port: number) => boolean;
  /** Default: 1 ms for each. */
  readonly way?: PodWay;
  /** Lets code of the caller go on after a message has come: now, later or never. Default: now. */
  readonly resume?: (go: () => void) => void;
  /** Bounds of the calls, and listeners. */
  readonly calls?: Partial<Omit<PodCallsOptions, "clock" | "transport">>;
}

/**
 * Creates the client. It finds a pod from the time its containers run, Ready or not, until it is gone. A pod on a silent node
 * is found, but does not answer. Each request opens a connection of its own.
 */
export function createWorldPodHttp(options: WorldPodHttpOptions): PodHttp {
  return new PodCalls({
    userAgent: "sluice/0.0.0 (world)",
    ...options.calls,
    clock: options.clock,
    transport: new WorldTransport(options),
  });
}

class WorldTransport implements Transport {
  readonly #options: WorldPodHttpOptions;

  constructor(options: WorldPodHttpOptions) {
    this.#options = options;
  }

  deliver(delivery: Delivery, limits: ExchangeLimits): Promise<HttpAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<HttpAnswer>();
    const call: CallUnderWay = { delivery, limits, resolve, reject };
    const { signal } = limits;
    // A request that is under way still arrives: the caller cannot call it back.
    const onAbort = () => this.#fail(call, "given up");
    signal.addEventListener("abort", onAbort, { once: true });
    this.#after("connect", call, () => this.#connect(call));
    return promise.finally(() => signal.removeEventListener("abort", onAbort));
  }

  #connect(call: CallUnderWay): void {
    const { world, listens = () => true, resume = runNow } = this.#options;
    const { delivery } = call;
    const pod = this.#find(delivery);
    if (pod === undefined) this.#fail(call, `ENOTFOUND ${delivery.host}`);
    else if (world.kubelet.isSilent(pod)) return;
    else if (!listens(pod, delivery.port)) this.#fail(call, "ECONNREFUSED");
    else resume(() => this.#ask(call, pod));
  }

  #ask(call: CallUnderWay, pod: StoredPod): void {
    const { signal, onSend } = call.limits;
    if (signal.aborted) return;
    try {
      onSend();
      this.#after("request", call, () => this.#arrive(call, pod));
    } catch (error) {
      call.reject(error);
    }
  }

  #arrive(call: CallUnderWay, pod: StoredPod): void {
    const { world, answer } = this.#options;
    const isThere = this.#find(call.delivery)?.metadata.uid === pod.metadata.uid;
    if (!isThere) this.#fail(call, "the connection ended");
    if (!isThere || world.kubelet.isSilent(pod)) return;
    const reply = answer(pod, call.delivery);
    if (reply !== "hang") this.#after("reply", call, () => this.#end(call, reply));
  }

  #end(call: CallUnderWay, reply: Exclude<PodReply, "hang">): void {
    const { resume = runNow } = this.#options;
    const { maxBodyBytes = Number.POSITIVE_INFINITY } = call.limits;
    if (reply === "break") {
      this.#fail(call, "the connection ended");
      return;
    }
    const { status, headers = {}, body = "" } = reply;
    const bytes = Buffer.from(body);
    const tooLong = new ExchangeError("size", `the answer has more than ${maxBodyBytes} bytes`, status);
    resume(() => (bytes.length > maxBodyBytes ? call.reject(tooLong) : call.resolve({ status, headers, body: bytes })));
  }

  /** The pod with running containers that has this DNS name. */
  #find({ address }: Delivery): StoredPod | undefined {
    const { namespace, pod: name, service } = address;
    const { store } = this.#options.world;
    const pod = store.find("pods", { namespace, name });
    const owner = pod?.metadata.ownerReferences?.find(({ kind }) => kind === "StatefulSet");
    const set = owner && store.find("statefulsets", { namespace, name: owner.name });
    // Without its StatefulSet the fake cluster cannot know the Service: then the pod's name is enough.
    if (set !== undefined && set.spec.serviceName !== service) return undefined;
    return pod?.status.containerStatuses?.some(({ state }) => state?.running !== undefined) ? pod : undefined;
  }

  #after(leg: PodLeg, { delivery }: CallUnderWay, run: () => void): void {
    const { world, way = () => 1 } = this.#options;
    const ms = way(leg, delivery);
    if (ms !== "lost") world.timeline.after(ms, run);
  }

  #fail({ reject }: CallUnderWay, message: string): void {
    const { resume = runNow } = this.#options;
    resume(() => reject(new ExchangeError("connection", message, undefined)));
  }
}

interface CallUnderWay {
  readonly delivery: Delivery;
  readonly limits: ExchangeLimits;
  readonly resolve: (delivered: HttpAnswer) => void;
  readonly reject: (error: unknown) => void;
}

const runNow = (go: () => void): void => go();
