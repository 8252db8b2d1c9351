/**
 * Plays the part of Knative's controllers on a control plane: it watches Knative's objects in all namespaces, starts what they
 * ask for with the settings that they give, writes their statuses, and starts again what has died. The programs that carry
 * events are Knative's own.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Api } from "../../controlplane/api.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { type Follower, follow } from "../../controlplane/follow.ts";
import type { DataPlane } from "../dataplane/programs.ts";
import type { Activator } from "./activator.ts";
import { type Adapter, Eventing } from "./eventing.ts";
import { Gateway } from "./gateway.ts";
import type { ApiServerSource, PingSource, Trigger } from "./objects.ts";
import {
  type Broker,
  type Destination,
  type KnativeObject,
  type KnativeService,
  keyOf,
  lists,
  readyStatus,
} from "./objects.ts";
import { Running } from "./running.ts";
import { startService } from "./service.ts";
import { Statuses } from "./statuses.ts";

export interface KnativeOptions {
  /** With the CRDs and ConfigMaps of Knative. */
  readonly controlPlane: ControlPlane;
  readonly dataPlane: DataPlane;
  /** The built server: its `start.cjs`. */
  readonly program: string;
  /** Without a request for so long, a function's instances end. Knative's default is a minute. */
  readonly stableWindowMs: number;
  /** Has the functions find pods that are servers of this machine: `NODE_OPTIONS`. Default: they find none. */
  readonly nodeOptions?: string;
  /** Is told what starts, scales and fails. Default: nothing is logged. */
  readonly log?: (line: string) => void;
}

/** An adapter that dies is started again after so long, as a kubelet does it. */
const restartAfterMs = 1_000;
/** What could not be done is tried again after so long. */
const retryAfterMs = 500;

interface Store<T extends KnativeObject> extends Follower<T> {
  readonly known: Map<string, T>;
}

function storeOf<T extends KnativeObject>(path: string, changed: () => void): Store<T> {
  const known = new Map<string, T>();
  return {
    path,
    known,
    seen(object) {
      known.set(object.metadata.uid, object);
      changed();
    },
    gone(uid) {
      known.delete(uid);
      changed();
    },
  };
}

function keysOf({ known }: Store<KnativeObject>): ReadonlySet<string> {
  return new Set([...known.values()].map(keyOf));
}

export class KnativeCluster {
  readonly controlPlane: ControlPlane;
  readonly program: string;
  readonly nodeOptions: string | undefined;
  readonly #options: KnativeOptions;
  readonly #api: Api;
  readonly #stopping = new AbortController();
  readonly #trigger = (): void => this.#triggered.resolve();
  #triggered = Promise.withResolvers<void>();
  readonly #stores = {
    services: storeOf<KnativeService>(lists.services, this.#trigger),
    brokers: storeOf<Broker>(lists.brokers, this.#trigger),
    triggers: storeOf<Trigger>(lists.triggers, this.#trigger),
    apiServerSources: storeOf<ApiServerSource>(lists.apiServerSources, this.#trigger),
    pingSources: storeOf<PingSource>(lists.pingSources, this.#trigger),
  };
  readonly #services = new Running<Activator>();
  readonly #eventing: Eventing;
  readonly #statuses: Statuses;
  readonly #gateway: Gateway;
  readonly #closers: (() => Promise<void>)[] = [];
  #following: Promise<unknown> = Promise.resolve();
  #reconciling: Promise<void> = Promise.resolve();

  private constructor(options: KnativeOptions, api: Api, gateway: Gateway) {
    const { controlPlane, dataPlane, program } = options;
    this.controlPlane = controlPlane;
    this.program = program;
    this.nodeOptions = options.nodeOptions;
    this.#options = options;
    this.#api = api;
    this.#gateway = gateway;
    this.#statuses = new Statuses(api);
    this.#eventing = new Eventing({
      controlPlane,
      dataPlane,
      api,
      deadLetterPorts: [gateway.port],
      resolve: (destination, namespace) => this.#resolve(destination, namespace),
      log: (text) => this.#log(text),
      onEnd: () => void delay(restartAfterMs).then(this.#trigger),
    });
  }

  /** Resolves when it follows Knative's objects. Rejects where their CRDs are missing. */
  static async start(options: KnativeOptions): Promise<KnativeCluster> {
    const api = await Api.open(options.controlPlane, { userAgent: "sluice-test-knative", connections: 16 });
    const cluster = new KnativeCluster(options, api, await Gateway.start());
    try {
      const { signal } = cluster.#stopping;
      const followed = [];
      for (const store of Object.values(cluster.#stores))
        followed.push(await follow(api, store as Store<KnativeObject>, signal));
      cluster.#following = Promise.all(followed.map(({ ended }) => ended));
      cluster.#reconciling = cluster.#reconcileForever();
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** Gives the name of a Service a port of this machine, and what is behind it an end with this cluster's. */
  host(name: string, port: number, close: () => Promise<void>): void {
    this.#gateway.name(name, port);
    this.#closers.push(close);
  }

  /** The activator of a Service; undefined until the Service has an address. */
  service(namespace: string, name: string): Activator | undefined {
    return this.#services.get(`${namespace}/${name}`);
  }

  /** Those of a namespace that watch now. */
  adapters(namespace: string): Adapter[] {
    return this.#eventing.adapters.startingWith(`${namespace}/`);
  }

  /** Ends everything that was started, those who send before those who receive. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#trigger();
    // What is being reconciled would start again what has just been ended, and nothing would end it.
    await this.#reconciling;
    await this.#eventing.close();
    await this.#services.keepOnly(new Set());
    await Promise.all(this.#closers.map((close) => close()));
    await this.#gateway.close();
    await this.#api.close();
    await this.#following;
  }

  #log(line: string): void {
    this.#options.log?.(line);
  }

  async #reconcileForever(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#triggered.promise;
      this.#triggered = Promise.withResolvers();
      if (signal.aborted) return;
      const failures = await this.#reconcile();
      if (signal.aborted) return;
      for (const { message } of failures) this.#log(`tried again in ${retryAfterMs} ms: ${message}`);
      if (failures.length > 0) void delay(retryAfterMs).then(this.#trigger);
    }
  }

  /** Those who receive first: who sends to them needs their address. */
  async #reconcile(): Promise<readonly Error[]> {
    const { services, brokers, triggers, apiServerSources, pingSources } = this.#stores;
    const failures: Error[] = [];
    const each = async <T extends KnativeObject>({ known }: Store<T>, work: (object: T) => Promise<void>) => {
      const settled = await Promise.allSettled([...known.values()].map(work));
      for (const one of settled) if (one.status === "rejected") failures.push(one.reason);
    };
    await each(services, (service) => this.#reconcileService(service));
    await this.#services.keepOnly(keysOf(services));
    await each(brokers, (broker) => {
      const { name, namespace } = broker.metadata;
      const isIts = ({ metadata, spec }: Trigger) => metadata.namespace === namespace && spec.broker === name;
      return this.#eventing.reconcileBroker(broker, [...triggers.known.values()].filter(isIts));
    });
    await each(apiServerSources, (source) => this.#eventing.reconcileSource(source));
    await this.#eventing.adapters.keepOnly(keysOf(apiServerSources));
    await each(pingSources, (source) => this.#eventing.reconcilePing(source));
    return failures;
  }

  async #reconcileService(service: KnativeService): Promise<void> {
    const log = (text: string) => this.#log(text);
    const { url } = await this.#services.ensure(keyOf(service), JSON.stringify(service.spec), () =>
      startService(service, { ...this.#options, api: this.#api, log }),
    );
    const status = readyStatus(service, "ConfigurationsReady", "RoutesReady");
    await this.#statuses.write(lists.services, service, { ...status, url, address: { url } });
  }

  #resolve({ ref, uri }: Destination, namespace: string): string | undefined {
    if (ref === undefined) return uri && this.#gateway.here(uri);
    const where = ref.namespace ?? namespace;
    if (ref.kind === "Broker") return this.#eventing.addressOf(where, ref.name);
    return this.service(where, ref.name)?.url;
  }
}
