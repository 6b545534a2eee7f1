// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// fakeRecords are the records of a host. They outlive managers.
type fakeRecords struct {
	mu      sync.Mutex
	records map[string]string
	list    error
	put     error
	// listed gets a value for each time that the records were read, unless it is nil.
	listed chan struct{}
}

func newFakeRecords() *fakeRecords { return &fakeRecords{records: map[string]string{}} }

func (f *fakeRecords) ListImageRecords(context.Context) ([]host.ImageRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed != nil {
		defer func() { f.listed <- struct{}{} }()
	}
	var out []host.ImageRecord
	for _, key := range slices.Sorted(maps.Keys(f.records)) {
		out = append(out, host.ImageRecord{Key: key, Content: []byte(f.records[key])})
	}
	return out, f.list
}

func (f *fakeRecords) PutImageRecord(_ context.Context, r host.ImageRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.put != nil:
		return f.put
	case len(r.Content) == 0:
		delete(f.records, r.Key)
	default:
		f.records[r.Key] = string(r.Content)
	}
	return nil
}

func (f *fakeRecords) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.records))
}

// fakeSecrets are the secrets of a cluster by name.
type fakeSecrets map[string]*v1.Secret

func (f fakeSecrets) Secret(_ context.Context, pod *v1.Pod, name string) (*v1.Secret, error) {
	if s := f[name]; s != nil && s.Namespace == pod.Namespace {
		return s, nil
	}
	return nil, fmt.Errorf("secret %q not found", name)
}

// put makes a secret with one login for a registry.
func (f fakeSecrets) put(name, uid, registry, login string) {
	user, password, _ := strings.Cut(login, ":")
	f[name] = &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, registry, user, password)},
	}
}

// privateImage is on a registry that wants a login, and on the machine once it was pulled.
const privateImage = "r.example.com/team/app:v1"

// appDigest is that of the image's manifest.
const appDigest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"

// island is a machine, a cluster and a registry; restart makes a new process on them.
type island struct {
	*bench
	records *fakeRecords
	secrets fakeSecrets
	// accepts are the logins that the registry takes, "" for none.
	accepts map[string]bool
	// here has the references of the images on the machine by name.
	here map[string]string
	// tried are the logins that were tried.
	tried []string
}

func newIsland(accepts ...string) *island {
	i := &island{records: newFakeRecords(), secrets: fakeSecrets{}, accepts: map[string]bool{}, here: map[string]string{}}
	for _, a := range accepts {
		i.accepts[a] = true
	}
	i.restart()
	return i
}

func (i *island) restart() {
	images := &fakeImages{
		status: func(image string) (*runtimeapi.Image, error) {
			id := i.here[normalized(image)]
			if strings.HasPrefix(image, "sha256:") { // it is found by its id as well
				id = image
			}
			if id == "" {
				return nil, nil
			}
			names := slices.DeleteFunc(slices.Sorted(maps.Keys(i.here)), func(name string) bool { return i.here[name] != id })
			slices.SortFunc(names, func(a, b string) int { return cmp.Compare(strings.Count(a, "@"), strings.Count(b, "@")) })
			tags := slices.IndexFunc(append(names, "@"), func(name string) bool { return strings.Contains(name, "@") })
			return &runtimeapi.Image{Id: id, RepoTags: names[:tags], RepoDigests: names[tags:]}, nil
		},
		pull: func(_ context.Context, req *runtimeapi.PullImageRequest) (string, error) {
			login := ""
			if a := req.GetAuth(); a != nil {
				login = a.GetUsername() + ":" + a.GetPassword()
			}
			i.tried = append(i.tried, login)
			if !i.accepts[login] {
				return "", errors.New("401 Unauthorized for " + cmp.Or(req.GetAuth().GetUsername(), "nobody"))
			}
			name := normalized(req.GetImage().GetImage())
			i.here[name], i.here[repositoryOf(name)+appDigest] = "sha256:app", "sha256:app"
			return "sha256:app", nil
		},
		list: func() []*runtimeapi.Image {
			var out []*runtimeapi.Image
			for _, id := range i.here {
				out = append(out, &runtimeapi.Image{Id: id})
			}
			return out
		},
	}
	i.bench = newBench(images, 0)
	i.Manager.records, i.Manager.secrets = i.records, i.secrets
}

// use has a new pod with these pull secrets use an image. It returns "" or why it cannot, and forgets the events.
func (i *island) use(t *testing.T, image string, policy v1.PullPolicy, secrets ...string) string {
	t.Helper()
	i.events.take()
	pod := testPod(fmt.Sprint("uid-", len(i.tried), strings.Join(secrets, "-")), image, policy)
	for _, s := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	i.tried = nil
	_, err := i.ensure(t.Context(), pod)
	i.Forget(pod.UID)
	var about *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &about):
		return about.WaitingReason() + ": " + err.Error()
	default:
		return err.Error()
	}
}

func (i *island) want(t *testing.T, got, want string, tried ...string) {
	t.Helper()
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if diff := gocmp.Diff(tried, i.tried); diff != "" {
		t.Errorf("logins tried (-want +got):\n%s", diff)
	}
}

func TestCredentialsOfThePodAreTriedInTurn(t *testing.T) {
	i := newIsland("me:new")
	i.secrets.put("old", "1", "r.example.com", "me:old")
	i.secrets.put("new", "2", "https://r.example.com/v1/", "me:new")
	i.secrets.put("elsewhere", "3", "s.example.com", "me:else")
	i.want(t, i.use(t, privateImage, v1.PullAlways, "elsewhere", "old", "new"), "", "me:old", "me:new")
	i.want(t, i.use(t, privateImage, v1.PullAlways, "old"), "ErrImagePull: 401 Unauthorized for me", "me:old")
	i.secrets.put("older", "4", "r.example.com/team", "you:old")
	i.want(t, i.use(t, privateImage, v1.PullAlways, "old", "older"),
		"ErrImagePull: [401 Unauthorized for you, 401 Unauthorized for me]", "you:old", "me:old")
	i.want(t, i.use(t, privateImage, v1.PullAlways, "elsewhere"), "ErrImagePull: 401 Unauthorized for nobody", "")
}

func TestMissingPullSecretsAreToldOfAndTheOthersUsed(t *testing.T) {
	i := newIsland("me:good", "")
	i.secrets.put("good", "1", "r.example.com", "me:good")
	i.secrets["broken"] = &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "broken"}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("hunter2")},
	}
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "gone", "", "good", "broken", "good"), "", "me:good")
	events := i.events.take()
	const want = " Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (gone, broken); attempting to pull the image may not succeed."
	if len(events) != 3 || events[0] != want {
		t.Errorf("events %q, want the first to be %q", events, want)
	}
	i.want(t, i.use(t, "other:v1", v1.PullIfNotPresent, "gone"), "", "")
}

func TestPrivateImageIsForThoseWhoHaveItsCredentials(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.secrets.put("same", "2", "r.example.com", "me:good")
	i.secrets.put("wrong", "3", "r.example.com", "me:bad")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	const never = `ErrImageNeverPull: Container image "r.example.com/team/app:v1" is not present with pull policy of Never`
	for _, process := range []string{"the same process", "another process"} {
		t.Run(process, func(t *testing.T) {
			i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "")
			if diff := gocmp.Diff([]string{
				`spec.containers{web} Normal Pulled Container image "r.example.com/team/app:v1" already present on machine and can be accessed by the pod`,
			}, i.events.take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			i.want(t, i.use(t, privateImage, v1.PullNever, "mine"), "")
			i.want(t, i.use(t, privateImage, v1.PullIfNotPresent), "ErrImagePull: 401 Unauthorized for nobody", "")
			i.want(t, i.use(t, privateImage, v1.PullNever), never)
			i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "wrong"), "ErrImagePull: 401 Unauthorized for me", "me:bad")
			i.want(t, i.use(t, privateImage, v1.PullNever, "wrong"), never)
		})
		i.restart()
	}
	// Another secret that says the same is checked with the registry once, and known from then on.
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "same"), "", "me:good")
	i.restart()
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "same"), "")
	i.secrets.put("same", "4", "r.example.com", "me:changed") // made anew with other content
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "same"), "ErrImagePull: 401 Unauthorized for me", "me:changed")
	for _, key := range i.records.keys() {
		if content := i.records.records[key]; strings.Contains(content, "good") || strings.Contains(content, "me") && !strings.Contains(content, "name") {
			t.Errorf("a record has what is secret: %s", content)
		}
	}
}

func TestSameCredentialsInAnotherSecretAreKnownWithoutTheRegistry(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	i.secrets.put("mine", "2", "r.example.com", "me:good") // deleted and made again
	i.want(t, i.use(t, privateImage, v1.PullNever, "mine"), "")
	i.restart() // and that is on record
	i.want(t, i.use(t, privateImage, v1.PullNever, "mine"), "")
}

func TestImageThatWasThereOrPulledByNobodyIsForEveryone(t *testing.T) {
	i := newIsland("", "me:good")
	i.here["docker.io/library/preloaded:v1"] = "sha256:pre"
	i.want(t, i.use(t, "preloaded:v1", v1.PullNever), "")
	i.want(t, i.use(t, "public:v1", v1.PullIfNotPresent), "", "")
	i.want(t, i.use(t, "public:v1", v1.PullNever), "")
	if keys := i.records.keys(); len(keys) > 0 {
		t.Errorf("records %q of images for everyone", keys)
	}
	// One that turned out to need no credentials is for everyone from then on.
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent), "", "")
	i.restart()
	i.want(t, i.use(t, privateImage, v1.PullNever), "")
}

func TestNameOfAnotherRegistryGivesNoAccessToTheSameImage(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	i.want(t, i.use(t, "mirror.example.com/app:v1", v1.PullIfNotPresent), "ErrImagePull: 401 Unauthorized for nobody", "")
	for _, name := range []string{"sha256:app", "r.example.com/team/app" + appDigest, "r.example.com/team/app:v2" + appDigest} {
		if got := i.use(t, name, v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
			t.Errorf("%s: %q, want it not to be found", name, got)
		}
	}
}

func TestImageThatWasLoadedStaysForEveryoneWhenItsContentIsPulledPrivately(t *testing.T) {
	const loaded = "docker.io/library/app:v1"
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.secrets.put("hub", "2", "index.docker.io", "me:good")
	i.here[loaded], i.here["docker.io/library/app"+appDigest] = "sha256:app", "sha256:app"
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	for _, process := range []string{"the same process", "another process"} {
		t.Run(process, func(t *testing.T) {
			for _, name := range []string{"app:v1", loaded, "app" + appDigest} {
				i.want(t, i.use(t, name, v1.PullNever), "")
			}
			if got := i.use(t, privateImage, v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
				t.Errorf("the private name is open: %q", got)
			}
		})
		i.restart()
	}
	i.want(t, i.use(t, loaded, v1.PullAlways, "hub"), "", "me:good") // now it was pulled under its own name
	if got := i.use(t, "app:v1", v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
		t.Errorf("the name that was pulled with credentials is open: %q", got)
	}
}

func TestPullThatDiedHidesEveryNameThatItMayHaveBrought(t *testing.T) {
	i := newIsland("me:good")
	i.here["r.example.com/team/app:v1"], i.here["r.example.com/team/app"+appDigest] = "sha256:app", "sha256:app"
	i.here["r.example.com/team/other:v1"] = "sha256:other"
	i.records.records["pulling "+privateImage] = "{}"
	for _, name := range []string{privateImage, "r.example.com/team/app" + appDigest, "sha256:app"} {
		if got := i.use(t, name, v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
			t.Errorf("%s: %q, want it not to be found", name, got)
		}
	}
	i.want(t, i.use(t, "r.example.com/team/other:v1", v1.PullNever), "")
	i.want(t, i.use(t, "sha256:other", v1.PullNever), "")
	i.here["docker.io/library/app:v1"] = "sha256:app"
	i.want(t, i.use(t, "app:v1", v1.PullNever), "")
}

func TestPullThatEndsBetweenTheQuestionsIsSeen(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	status := i.images.status
	i.images.status = func(image string) (*runtimeapi.Image, error) {
		i.images.status = status
		if got := i.use(t, privateImage, v1.PullIfNotPresent, "mine"); got != "" { // after the records were read
			t.Error(got)
		}
		return status(image)
	}
	i.records.listed = make(chan struct{}, 10)
	wait := i.images.status
	i.images.status = func(image string) (*runtimeapi.Image, error) {
		<-i.records.listed
		return wait(image)
	}
	if got := i.use(t, privateImage, v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
		t.Errorf("got %q with records older than the image", got)
	}
}

func TestPullThatWasCutShortDoesNotMakeAnImagePublic(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	pull := i.images.pull
	i.images.pull = func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		if _, err := pull(ctx, req); err != nil { // the image arrives, the answer does not
			return "", err
		}
		return "", errdefs.ErrUnavailable
	}
	if got := i.use(t, privateImage, v1.PullIfNotPresent, "mine"); !strings.HasPrefix(got, "pulling image") {
		t.Errorf("got %q, want an error without a reason", got)
	}
	i.restart()
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent), "ErrImagePull: 401 Unauthorized for nobody", "")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "")
	if diff := gocmp.Diff([]string{"pulled sha256:app"}, i.records.keys()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestRecordThatCannotBeWrittenKeepsTheImagePrivate(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	pull := i.images.pull
	i.images.pull = func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		i.records.put = errdefs.ErrUnavailable // the link goes down while the image is pulled
		return pull(ctx, req)
	}
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	i.restart()
	i.records.put = nil
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent), "ErrImagePull: 401 Unauthorized for nobody", "")

	i.records.put = errdefs.ErrResourceExhausted.WithMessage("there are 1000 image records")
	got := i.use(t, privateImage, v1.PullIfNotPresent, "mine")
	i.want(t, got, `ErrImagePull: recording that image "r.example.com/team/app:v1" is about to be pulled with credentials: there are 1000 image records`)
}

func TestWhoMayUseAnImageIsNotGuessedWhileTheHostDoesNotAnswer(t *testing.T) {
	i := newIsland()
	i.here[privateImage] = "sha256:app"
	i.records.list = errdefs.ErrUnavailable
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent), `looking for who may use image "r.example.com/team/app:v1": unavailable`)
}

func TestRecordsOfImagesThatAreGoneGoWithTheNextOne(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	i.records.records["pulled sha256:removed"] = `{"r.example.com/x":{}}`
	i.records.records["pulling r.example.com/x:v1"] = `{}`
	i.want(t, i.use(t, privateImage, v1.PullIfNotPresent, "mine"), "", "me:good")
	if diff := gocmp.Diff([]string{"pulled sha256:app", "pulling r.example.com/x:v1"}, i.records.keys()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestImageIsPrivateWhileItIsBeingPulled(t *testing.T) {
	i := newIsland("me:good")
	i.secrets.put("mine", "1", "r.example.com", "me:good")
	pull := i.images.pull
	var during string
	i.images.pull = func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
		ref, err := pull(ctx, req)
		if err == nil {
			i.images.pull = pull
			i.records.records = map[string]string{} // however the records lag behind
			during = i.use(t, privateImage, v1.PullNever)
		}
		return ref, err
	}
	if got := i.use(t, privateImage, v1.PullIfNotPresent, "mine"); got != "" {
		t.Error(got)
	}
	if !strings.HasPrefix(during, "ErrImageNeverPull") {
		t.Errorf("another pod got the image before it was known who may: %q", during)
	}
}

func TestRecordThatCannotBeReadLetsNobodyIn(t *testing.T) {
	i := newIsland()
	i.here[privateImage] = "sha256:app"
	for _, content := range []string{"", "{", "[]", `{"r.example.com/team/app":{"anyone":"yes"}}`, `null`, `{"r.example.com/team/app":{}}`} {
		i.records.records["pulled sha256:app"] = content
		if got := i.use(t, privateImage, v1.PullNever); !strings.HasPrefix(got, "ErrImageNeverPull") {
			t.Errorf("%q: %q", content, got)
		}
	}
	i.records.records["pulled sha256:app"] = `{"r.example.com/team/app":{"anyone":true}}`
	i.want(t, i.use(t, privateImage, v1.PullNever), "")
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"r/x":{"anyone":true,"secrets":[{"namespace":"n","name":"s","uid":"u"}]}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, content []byte) {
		record := parseRecord(content)
		if record == nil {
			t.Fatal("no record: everyone would be let in")
		}
		if known, pulled := record.of("r/other"); known.Anyone && (!pulled || !json.Valid(content)) {
			t.Fatalf("%q lets everyone in", content)
		}
		record.add("r/new", nil)
		if _, err := record.encode("sha256:x"); err != nil {
			t.Error(err)
		}
	})
}
