/**
 * HTTP to the pods of the embedded world, in its time: bounds, turns and errors are those of `functions/shared/http`, and only
 * what carries a request is played.
 */
import { type Delivery, PodCalls, type PodCallsOptions, type Transport } from "../../functions/shared/http/calls.ts";
import type { PodHttp } from "../../functions/shared/http/pod-http.ts";
import { ExchangeError, type ExchangeLimits, type HttpAnswer } from "../../functions/shared/transport/exchange.ts";
import type { StoredPod } from "./objects.ts";
import type { World } from "./world.ts";

/** What a pod does with a request: it answers, or ends the connection, or says nothing for ever. */
export type PodReply =
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  | "break"
  | "hang";

/** Where a message goes: what opens a connection, what is asked, what is answered. */
export type PodLeg = "connect" | "request" | "reply";

/** How long a message is under way, in milliseconds; one that is `lost` never arrives, and the call ends with its time. */
export type PodWay = (leg: PodLeg, delivery: Delivery) => number | "lost";

export interface WorldPodHttpOptions extends Pick<PodCallsOptions, "clock"> {
  readonly world: World;
  /**
   * What runs in the pods, at the moment at which a request arrives. What a pod has been told is this function's to keep, by the
   * pod's uid: another pod of the same name has been told nothing.
   */
  readonly answer: (pod: StoredPod, delivery: Delivery) => PodReply;
  /** Default: a pod that runs listens on every port. */
  readonly listens?: (pod: StoredPod, port: number) => boolean;
  /** Default: 1 ms for each. */
  readonly way?: PodWay;
  /** Lets code of the caller go on, when something has come to it: now, later or never. Default: now. */
  readonly resume?: (go: () => void) => void;
  /** Bounds of the calls, and who learns of them. */
  readonly calls?: Partial<Omit<PodCallsOptions, "clock" | "transport">>;
}

/**
 * A pod is found from the moment its containers run, Ready or not, until it is gone. One on a silent node is found, and says
 * nothing. Connections are not kept: each request opens one.
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
    // What is under way then still arrives: the caller cannot call it back.
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

  /** The pod whose containers run, by the name that DNS has for it. */
  #find({ address }: Delivery): StoredPod | undefined {
    const { namespace, pod: name, service } = address;
    const { store } = this.#options.world;
    const pod = store.find("pods", { namespace, name });
    const owner = pod?.metadata.ownerReferences?.find(({ kind }) => kind === "StatefulSet");
    const set = owner && store.find("statefulsets", { namespace, name: owner.name });
    // Without its StatefulSet the world cannot tell whose Service it is: the pod itself keeps the name.
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
