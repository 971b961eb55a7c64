package infer

import (
	"slices"
	"time"
)

// queue holds the requests that wait for a batch in two lines: those whose
// results somebody waits for, and those of producers that are patient.
//
// Each line is in the order in which its requests came. Between the lines the
// earlier due comes first, and what can wait is due by the patience later than
// what can't. So the last window of a read that has ended overtakes those of
// reads that go on, but none of these waits longer for it than the patience.
type queue struct {
	patience        time.Duration
	urgent, patient []*Request
}

func (q *queue) len() int { return len(q.urgent) + len(q.patient) }

// add queues a request at the end of its line.
func (q *queue) add(req *Request) {
	if req.producer.patient {
		q.patient = append(q.patient, req)
		return
	}
	q.urgent = append(q.urgent, req)
}

// take moves up to n requests to batch, those that are due first.
func (q *queue) take(batch []*Request, n int) []*Request {
	u, p := 0, 0
	for u+p < n && u+p < q.len() {
		switch {
		case u == len(q.urgent):
			batch = append(batch, q.patient[p])
			p++
		case p == len(q.patient) || !q.patient[p].queued.Add(q.patience).Before(q.urgent[u].queued):
			batch = append(batch, q.urgent[u])
			u++
		default:
			batch = append(batch, q.patient[p])
			p++
		}
	}
	q.urgent, q.patient = slices.Delete(q.urgent, 0, u), slices.Delete(q.patient, 0, p)
	return batch
}

// hurry moves the requests of a producer that is patient no more to the urgent
// line, among which they have their place by age.
func (q *queue) hurry(p *Producer) {
	moved := 0
	for _, req := range q.patient {
		if req.producer == p {
			q.urgent = append(q.urgent, req)
			moved++
		}
	}
	if moved == 0 {
		return
	}
	q.patient = slices.DeleteFunc(q.patient, func(req *Request) bool { return req.producer == p })
	slices.SortStableFunc(q.urgent, func(a, b *Request) int { return a.queued.Compare(b.queued) })
}

// drop takes out all requests that have a property.
func (q *queue) drop(unwanted func(*Request) bool) []*Request {
	var dropped []*Request
	for _, line := range []*[]*Request{&q.urgent, &q.patient} {
		*line = slices.DeleteFunc(*line, func(req *Request) bool {
			if !unwanted(req) {
				return false
			}
			dropped = append(dropped, req)
			return true
		})
	}
	return dropped
}

// oldest returns the age of the request that has waited longest; 0 if there is none.
func (q *queue) oldest(now time.Time) time.Duration {
	age := time.Duration(0)
	for _, line := range [][]*Request{q.urgent, q.patient} {
		if len(line) > 0 {
			age = max(age, now.Sub(line[0].queued))
		}
	}
	return age
}
