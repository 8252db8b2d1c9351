/** An admission webhook over TLS that answers as a case wants. */
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { createAuthority } from "../support/certificates.ts";
import { type EvictionFixture, eventually, type Fixture } from "./fixture.ts";

/** The fields of an AdmissionReview's `request` that cases read. */
export interface ReviewedRequest {
  readonly uid: string;
  readonly operation: string;
  readonly name: string;
  readonly namespace: string;
  readonly dryRun: boolean;
  readonly object: ReviewedObject;
  readonly oldObject: ReviewedObject | null;
  readonly [field: string]: unknown;
}

/** The new or the old object: an Eviction, an object or a Scale. */
export interface ReviewedObject {
  readonly kind: string;
  readonly metadata: Partial<Metadata>;
  readonly deleteOptions?: Readonly<Record<string, unknown>>;
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number };
}

export interface Review {
  /** Path and query. */
  readonly url: string;
  readonly apiVersion: string;
  readonly request: ReviewedRequest;
}

/** The `response` of an AdmissionReview without its uid, which is filled in. */
export type Response = { readonly allowed: boolean } & Readonly<Record<string, unknown>>;

/** The answer: a response, HTTP 500, or never anything. */
export type Answer = Response | "broken" | "never";

export type WebhookKind = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

export class WebhookServer {
  /** Base64 of the PEM. */
  readonly caBundle: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #reviews: Review[] = [];
  answer: (review: Review) => Answer | Promise<Answer> = () => ({ allowed: true });

  private constructor(caBundle: string, server: Server) {
    this.caBundle = caBundle;
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<WebhookServer> {
    const authority = await createAuthority();
    const server = createServer(await authority.issue());
    const webhooks = new WebhookServer(Buffer.from(authority.cert).toString("base64"), server);
    server.on("request", async (request, response) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of request) chunks.push(chunk as Buffer);
      } catch {
        // The request was aborted, because a controller still writes while a case ends.
        return;
      }
      const { apiVersion, request: asked } = JSON.parse(Buffer.concat(chunks).toString());
      const review: Review = { url: request.url ?? "", apiVersion, request: asked };
      webhooks.#reviews.push(review);
      const answer = await webhooks.answer(review);
      if (answer === "never") return;
      if (answer === "broken") {
        response.writeHead(500, { "content-type": "text/plain" }).end(answer);
        return;
      }
      const text = JSON.stringify({ apiVersion, kind: "AdmissionReview", response: { uid: asked.uid, ...answer } });
      response.writeHead(200, { "content-type": "application/json" }).end(text);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return webhooks;
  }

  urlOf(path: string): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${path}`;
  }

  /** The reviews since the last call, the oldest first. */
  take(): readonly Review[] {
    const reviews = this.#reviews;
    this.#reviews = [];
    return reviews;
  }

  /**
   * Registers a webhook for the evictions of the case's namespace, or for other `rules`, at the path of its name.
   *
   * @returns the name that refusals contain.
   */
  async register(fixture: Fixture, kind: WebhookKind, name: string, more: object = {}): Promise<string> {
    const { cluster, namespace } = fixture;
    const webhook = `${name}.contract.sluice.dev`;
    await cluster.create(kind, "", {
      metadata: { name: `${name}-${namespace}` },
      webhooks: [
        {
          name: webhook,
          clientConfig: { url: this.urlOf(name), caBundle: this.caBundle },
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
          rules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods/eviction"] }],
          admissionReviewVersions: ["v1"],
          sideEffects: "None",
          ...more,
        },
      ],
    });
    return webhook;
  }

  /**
   * Waits until these webhooks are asked, because the API server learns of a registration with a delay. Forgets all reviews.
   */
  async known(fixture: EvictionFixture, ...names: readonly string[]): Promise<void> {
    await this.askedBy(() => fixture.evict("absent", {}, "dryRun=All"), names);
  }

  /** Repeats an operation until all of these webhooks are asked about it. Forgets all reviews. */
  async askedBy(act: () => Promise<unknown>, names: readonly string[]): Promise<void> {
    await eventually(
      `reviews by ${names.join(" and ")}`,
      async () => {
        this.take();
        await act();
        return this.take().map(({ url }) => url.split("?")[0]);
      },
      (paths) => names.every((name) => paths.includes(`/${name}`)),
    );
  }

  /**
   * Ends at once, whatever is under way: an API server may just be connecting, which Node does not count as a connection yet.
   */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, "close");
  }
}
