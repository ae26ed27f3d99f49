// Every metric is declared by one call of a meter, with its name, its help and its labels.
import { Counter, Gauge, type Registry } from 'prom-client'
import { type BoundHistogram, createBoundHistogram } from './bound-histogram.ts'
import { createTallies, type FastCounters } from './fast-counter.ts'

export type Meter = Readonly<{
  /** A series begins with 0 when it is first named: Prometheus sees no increase in one that first appears with 1. */
  counter: <const Labels extends readonly string[]>(
    name: string,
    help: string,
    ...labels: Labels
  ) => FastCounters<Labels>
  /** Increases by 1 the series of its label values. */
  count: <const Labels extends readonly string[]>(name: string, help: string, ...labels: Labels) => Count<Labels>
  /** A counter that something else keeps, read at each scrape. */
  watchTotal: (name: string, help: string) => (read: () => number) => void
  gauge: <Label extends string>(name: string, help: string, ...labels: readonly Label[]) => Gauge<Label>
  /** A gauge that is set at each scrape. */
  collect: <Label extends string>(
    name: string,
    help: string,
    labels: readonly Label[],
    read: (gauge: Gauge<Label>) => void | Promise<void>,
  ) => void
  /** A gauge that is read at each scrape; 0 before something is watched. */
  watch: (name: string, help: string) => (read: () => number) => void
  /** The sum of all that is watched. */
  watchSum: (name: string, help: string) => (read: () => number) => void
  /** 1 or 0, by the last reading that was given. Before, it is `atFirst`. */
  watchFlag: (name: string, help: string, atFirst: boolean) => (read: () => boolean) => void
  /** 1 or 0, as it was noted last. */
  flag: <const Labels extends readonly string[]>(name: string, help: string, ...labels: Labels) => Note<Labels>
  histogram: (name: string, help: string, buckets: readonly number[]) => BoundHistogram
}>

type Values<Labels extends readonly string[]> = { [Index in keyof Labels]: string }

type Count<Labels extends readonly string[]> = (...values: Values<Labels>) => void

type Note<Labels extends readonly string[]> = (...given: [...values: Values<Labels>, isTrue: boolean]) => void

export function createMeter(registry: Registry): Meter {
  const registers = [registry]
  const counter: Meter['counter'] = (name, help, ...labels) => createTallies({ name, help, labels }, registers)
  const gauge: Meter['gauge'] = (name, help, ...labels) => new Gauge({ name, help, labelNames: [...labels], registers })
  const collect: Meter['collect'] = (name, help, labels, read) =>
    void new Gauge({
      name,
      help,
      labelNames: [...labels],
      registers,
      collect() {
        return read(this)
      },
    })
  return {
    counter,
    count: (name, help, ...labels) => {
      const tallies = counter(name, help, ...labels)
      return (...values) => {
        tallies(...values).count += 1
      }
    },
    watchTotal: (name, help) => watchTotal(name, help, registers),
    gauge,
    collect,
    watch: (name, help) => {
      let read = () => 0
      collect(name, help, [], (one) => one.set(read()))
      return (watched) => {
        read = watched
      }
    },
    watchSum: (name, help) => {
      const watched: (() => number)[] = []
      collect(name, help, [], (one) => one.set(watched.reduce((sum, read) => sum + read(), 0)))
      return (read) => void watched.push(read)
    },
    watchFlag: (name, help, atFirst) => {
      let read = () => atFirst
      collect(name, help, [], (one) => one.set(read() ? 1 : 0))
      return (watched) => {
        read = watched
      }
    },
    flag: (name, help, ...labels) => {
      const one = gauge<string>(name, help, ...labels)
      return (...given) => {
        const isTrue = given.at(-1) === true
        one.set(Object.fromEntries(labels.map((label, index) => [label, String(given[index])])), isTrue ? 1 : 0)
      }
    },
    histogram: (name, help, buckets) => createBoundHistogram({ name, help, buckets, registers }),
  }
}

function watchTotal(name: string, help: string, registers: Registry[]): (read: () => number) => void {
  let read = () => 0
  new Counter({
    name,
    help,
    registers,
    collect() {
      this.reset()
      this.inc(read())
    },
  })
  return (watched) => {
    read = watched
  }
}
