/** What carries one request to a pod and its answer back: connections, or the embedded world. */
import type { PodAddress } from "./pod-http.ts";
import type { PodUrl } from "./target.ts";

export interface Delivery extends PodUrl {
  readonly address: PodAddress;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export interface DeliveryLimits {
  /** Ends it, whatever has come: the transport then rejects soon, with anything. */
  readonly signal: AbortSignal;
  /** The longest body of an answer, in bytes: as soon as there are more, nothing more is read. */
  readonly mostBytes: number;
  /** Is called when the first byte is about to go out. When it throws, none goes out, and the transport rejects. */
  readonly onSend: () => void;
}

export interface Delivered {
  readonly status: number;
  /** Their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer<ArrayBufferLike>;
}

/** Rejects with a {@link DeliveryError}, unless it was ended. */
export interface Transport {
  deliver(delivery: Delivery, limits: DeliveryLimits): Promise<Delivered>;
}

/** A delivery that failed by itself: neither its time nor its caller ended it. */
export class DeliveryError extends Error {
  readonly failed: "request" | "size" | "connection";
  /** Of an answer that began to come; a connection that broke without one may have been old. */
  readonly status: number | undefined;
  /** True where the certificate is of an authority that is not trusted. */
  readonly isUntrusted: boolean;

  constructor(
    failed: DeliveryError["failed"],
    message: string,
    status: number | undefined,
    options?: ErrorOptions & { readonly isUntrusted?: boolean },
  ) {
    super(message, options);
    this.name = "DeliveryError";
    this.failed = failed;
    this.status = status;
    this.isUntrusted = options?.isUntrusted ?? false;
  }
}
