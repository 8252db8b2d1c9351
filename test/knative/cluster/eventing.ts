/** What Knative Eventing's controllers do for sources, Brokers and Triggers: they start programs, and tell them by statuses. */
import { join } from "node:path";
import type { Api } from "../../controlplane/api.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { kubeconfigOf } from "../../support/installed.ts";
import { channelConditions } from "../dataplane/preparation.ts";
import {
  type DataPlane,
  type Listening,
  type Program,
  type Surroundings,
  startAdapter,
  startDispatcher,
  startFilter,
  startIngress,
  startPing,
} from "../dataplane/programs.ts";
import {
  type ApiServerSource,
  type Broker,
  type Destination,
  type KnativeObject,
  keyOf,
  lists,
  type PingSource,
  pathOf,
  readyStatus,
  type Trigger,
} from "./objects.ts";
import { type Closable, Running, startTogether } from "./running.ts";
import { Statuses } from "./statuses.ts";

export interface EventingOptions {
  readonly controlPlane: ControlPlane;
  readonly dataPlane: DataPlane;
  readonly api: Api;
  /** Ports of this machine that dead letters may go to. */
  readonly deadLetterPorts: readonly number[];
  /** The URL of a destination that is mentioned in this namespace; undefined while it has none. */
  resolve(destination: Destination, namespace: string): string | undefined;
  /** Is told what starts and ends. */
  log(message: string): void;
  /** Is called when something has ended that is to be started again. */
  onEnd(): void;
}

/** An adapter that runs for a source. */
export interface Adapter extends Closable {
  /** SIGKILL. It is started again when `until` has resolved. */
  kill(until: Promise<unknown>): Promise<void>;
}

/** The programs of the channel-based broker: one of each for all Brokers. */
interface Brokering extends Closable {
  readonly ingress: Listening;
  readonly filter: Listening;
  readonly dispatcher: Listening;
}

const graceMs = 5_000;

export class Eventing {
  readonly #options: EventingOptions;
  readonly #surroundings: Surroundings;
  readonly #statuses: Statuses;
  /** By the keys of their sources. */
  readonly adapters = new Running<Adapter>();
  readonly #ping = new Running<Closable>();
  readonly #brokering = new Running<Brokering>();

  constructor(options: EventingOptions) {
    const { controlPlane, dataPlane, api } = options;
    this.#options = options;
    this.#surroundings = { dataPlane, kubeconfig: controlPlane.kubeconfig, logs: join(controlPlane.directory, "logs") };
    this.#statuses = new Statuses(api);
  }

  /** Where a Broker takes events; undefined until its programs run. */
  addressOf(namespace: string, name: string): string | undefined {
    const ingress = this.#brokering.get("")?.ingress;
    return ingress && `${ingress.url}/${namespace}/${name}`;
  }

  /** Has an adapter run for a source whose sink is known. */
  async reconcileSource(source: ApiServerSource): Promise<void> {
    const sink = this.#sinkOf(source);
    if (sink === undefined) return;
    const reason = JSON.stringify([source.spec, sink]);
    await this.adapters.ensure(keyOf(source), reason, () => this.#startAdapter(source, sink));
    await this.#statuses.write(lists.apiServerSources, source, { ...readyStatus(source), sinkUri: sink });
  }

  /** Has mtping take a source whose sink is known. */
  async reconcilePing(source: PingSource): Promise<void> {
    const sink = this.#sinkOf(source);
    if (sink === undefined) return;
    await this.#ping.ensure("", "", () => this.#startPing());
    const status = readyStatus(source, "SinkProvided", "Deployed", "OIDCIdentityCreated");
    await this.#statuses.write(lists.pingSources, source, { ...status, sinkUri: sink });
  }

  /** Has a Broker deliver to the Triggers that name it and whose subscribers are known. */
  async reconcileBroker(broker: Broker, triggers: readonly Trigger[]): Promise<void> {
    const brokering = await this.#brokering.ensure("", "", () => this.#startBrokering());
    const { name, namespace } = broker.metadata;
    const url = this.addressOf(namespace, name);
    const known = triggers.flatMap((trigger) => {
      const subscriberUri = this.#options.resolve(trigger.spec.subscriber, namespace);
      return subscriberUri === undefined ? [] : [{ trigger, subscriberUri }];
    });
    const channel = `${name}-kne-trigger`;
    await this.#writeChannel(
      broker,
      channel,
      known.map(({ trigger }) => this.#subscription(brokering, broker, trigger)),
    );
    await this.#statuses.write(lists.brokers, broker, {
      ...readyStatus(broker, "Addressable", "FilterReady", "IngressReady", "TriggerChannelReady"),
      address: { url },
      annotations: {
        "knative.dev/channelAddress": `${brokering.dispatcher.url}/${namespace}/${channel}`,
        "knative.dev/channelKind": "InMemoryChannel",
        "knative.dev/channelAPIVersion": "messaging.knative.dev/v1",
        "knative.dev/channelName": channel,
      },
    });
    for (const { trigger, subscriberUri } of known) {
      const status = readyStatus(trigger, "BrokerReady", "SubscriberResolved", "SubscriptionReady");
      await this.#statuses.write(lists.triggers, trigger, { ...status, subscriberUri });
    }
  }

  async close(): Promise<void> {
    const none: ReadonlySet<string> = new Set();
    // Those who send first.
    await Promise.all([this.adapters.keepOnly(none), this.#ping.keepOnly(none)]);
    await this.#brokering.keepOnly(none);
  }

  #sinkOf({ metadata, spec }: ApiServerSource | PingSource): string | undefined {
    return this.#options.resolve(spec.sink, metadata.namespace);
  }

  async #startAdapter(source: ApiServerSource, sink: string): Promise<Adapter> {
    const { controlPlane, api, log, onEnd } = this.#options;
    const { serviceAccountName = "default" } = source.spec;
    const { namespace } = source.metadata;
    const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, serviceAccountName);
    // Sources of several namespaces have the same name.
    const logs = join(this.#surroundings.logs, namespace);
    const program = await startAdapter({ ...this.#surroundings, kubeconfig, logs }, { source, sink });
    const key = keyOf(source);
    log(`${key}: its adapter watches`);
    let restart = Promise.resolve<unknown>(undefined);
    let closing = false;
    void program.ended.then(async ({ summary }) => {
      if (closing) return;
      log(`${key}: its adapter ended: ${summary}`);
      await restart;
      if (closing) return;
      this.adapters.forget(key);
      onEnd();
    });
    return {
      async kill(until) {
        restart = until;
        await program.kill();
      },
      async close() {
        closing = true;
        await program.stop(graceMs);
      },
    };
  }

  async #startPing(): Promise<Closable> {
    const program = await startPing(this.#surroundings);
    this.#options.log("mtping runs");
    return closable(program);
  }

  async #startBrokering(): Promise<Brokering> {
    const ingressStarts = startIngress(this.#surroundings);
    const filterStarts = startFilter(this.#surroundings);
    const dispatcherStarts = Promise.all([ingressStarts, filterStarts]).then((reached) =>
      startDispatcher(this.#surroundings, {
        reaches: [...reached.map(({ port }) => port), ...this.#options.deadLetterPorts],
      }),
    );
    const [ingress, filter, dispatcher] = await startTogether([ingressStarts, filterStarts, dispatcherStarts]);
    this.#options.log("ingress, dispatcher and filter run");
    const close = async () => {
      for (const program of [ingress, dispatcher, filter]) await program.stop(graceMs);
    };
    return { ingress, filter, dispatcher, close };
  }

  /** As the channel's controller makes it of the Subscription that the Trigger's makes. */
  #subscription({ filter }: Brokering, broker: Broker, trigger: Trigger): object {
    const { name, namespace, uid, generation } = trigger.metadata;
    const { deadLetterSink, ...delivery } = trigger.spec.delivery ?? broker.spec.delivery ?? {};
    const uri = deadLetterSink && this.#options.resolve(deadLetterSink, namespace);
    return {
      uid,
      generation,
      name,
      subscriberUri: `${filter.url}/triggers/${namespace}/${name}/${uid}`,
      replyUri: this.addressOf(namespace, broker.metadata.name),
      delivery: { ...delivery, ...(uri === undefined ? {} : { deadLetterSink: { uri } }) },
    };
  }

  async #writeChannel(broker: Broker, name: string, subscribers: readonly object[]): Promise<void> {
    const { namespace, uid } = broker.metadata;
    const apiVersion = "messaging.knative.dev/v1";
    const path = pathOf(lists.channels, { namespace, name });
    const owner = { apiVersion: "eventing.knative.dev/v1", kind: "Broker", name: broker.metadata.name, uid };
    const channel = await this.#options.api.request<KnativeObject>(
      "PATCH",
      `${path}?fieldManager=sluice-test-knative&force=true`,
      {
        apiVersion,
        kind: "InMemoryChannel",
        metadata: {
          name,
          namespace,
          annotations: { "eventing.knative.dev/scope": "cluster" },
          ownerReferences: [owner],
        },
        spec: { subscribers },
      },
      "application/apply-patch+yaml",
    );
    const url = `http://${name}-kn-channel.${namespace}.svc.cluster.local`;
    const status = { ...readyStatus(channel, ...channelConditions), address: { url } };
    await this.#statuses.write(lists.channels, channel, status);
  }
}

function closable(program: Program): Closable {
  return {
    async close() {
      await program.stop(graceMs);
    },
  };
}
